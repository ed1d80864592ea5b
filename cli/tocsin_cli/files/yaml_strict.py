"""A strict YAML reader: what is written is what is meant, and every value knows where it stands.

Scalars are those of JSON: `true` and `false`, decimal numbers without leading zeros, `null`, `~` and
nothing; everything else is text: `yes`, `on`, `010`, `2:30`, `2026-03-08`. A key that comes twice, a tag and
a merge key are errors. Anchors and aliases work. The parser is PyYAML's; its resolver and constructor are not
used.

Limits: DEPTH levels, VALUES values in one file after aliases are followed, so that a small file cannot unfold
into a large one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

DEPTH = 63  # below the first level; the API reads bodies of 64 levels
VALUES = 100_000
Scalar = str | int | float | bool | None
Value = Scalar | list["Value"] | dict[str, "Value"]
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file, counted from 1."""

    line: int
    column: int


class YamlError(Exception):
    """Text that is not strict YAML."""

    def __init__(self, place: Place, problem: str, fix: str) -> None:
        super().__init__(f"{place.line}:{place.column} {problem}. {fix}")
        self.place = place
        self.problem = problem
        self.fix = fix


@dataclass(slots=True)
class Node:
    """A value with its place; a mapping holds its keys' places as well."""

    place: Place
    scalar: Scalar = None
    items: list[Node] | None = None
    entries: dict[str, tuple[Place, Node]] | None = None
    size: int = 1


@dataclass(slots=True)
class Document:
    """One document: its value, and where each JSON pointer of it stands."""

    value: Value
    places: dict[str, Place] = field(default_factory=dict)


def read(text: str) -> list[Document]:
    """The documents of a text; empty ones are left out. Raises YamlError."""
    try:
        return [
            document for root in _Builder(text).documents() if (document := _finish(root)).value is not None
        ]
    except yaml.MarkedYAMLError as error:
        raise _explained(error, text) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        fix = "remove the character, or write it as an escape in double quotes"
        raise YamlError(Place(line, 1), "a character that YAML does not allow", fix) from None


class _Builder:
    def __init__(self, text: str) -> None:
        self._events: Iterator[Event] = iter(yaml.parse(text, Loader=yaml.SafeLoader))
        self._anchors: dict[str, Node] = {}

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                self._anchors.clear()
                yield self._node(next(self._events), 0)
            elif isinstance(event, StreamEndEvent):
                return

    def _node(self, event: Event, depth: int) -> Node:
        place = _place(event)
        if depth > DEPTH:
            raise YamlError(place, f"more than {DEPTH} levels", "write it flatter")
        if isinstance(event, AliasEvent):
            return self._aliased(event, place)
        assert isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent)
        if event.tag not in {None, "!"}:
            raise YamlError(place, f"the tag {event.tag} has no meaning here", "remove the tag")
        node = Node(place)
        if isinstance(event, ScalarEvent):
            node.scalar = plain(event.value) if event.implicit[0] else event.value
        elif isinstance(event, SequenceStartEvent):
            self._sequence(node, depth)
        else:
            self._mapping(node, depth)
        if node.size > VALUES:
            raise YamlError(place, f"more than {VALUES} values", "split the file")
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _aliased(self, event: AliasEvent, place: Place) -> Node:
        if event.anchor not in self._anchors:
            raise YamlError(place, f"*{event.anchor} refers to nothing", "quote the text if a star is meant")
        return self._anchors[event.anchor]

    def _sequence(self, node: Node, depth: int) -> None:
        node.items = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            node.items.append(self._node(event, depth + 1))
            node.size += node.items[-1].size

    def _mapping(self, node: Node, depth: int) -> None:
        node.entries = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            place = _place(event)
            if not isinstance(event, ScalarEvent):
                raise YamlError(place, "a key is not text", "write the key as plain text")
            key = event.value
            if key == "<<" and event.implicit[0]:
                raise YamlError(
                    place, "merge keys (<<) are not YAML 1.2", "put common values under `defaults:`"
                )
            if key in node.entries:
                first = node.entries[key][0]
                raise YamlError(place, f"the key {key} comes twice (first on line {first.line})", "keep one")
            node.entries[key] = (place, self._node(next(self._events), depth + 1))
            node.size += node.entries[key][1].size


def _place(event: Event) -> Place:
    mark = event.start_mark
    return Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)


def plain(text: str) -> Scalar:
    """What text without quotes stands for."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _finish(root: Node) -> Document:
    document = Document(None, {"#": root.place})
    document.value = _value(root, "#", document.places)
    return document


def _value(node: Node, pointer: str, places: dict[str, Place]) -> Value:
    if node.items is not None:
        for index, item in enumerate(node.items):
            places[f"{pointer}/{index}"] = item.place
        return [_value(item, f"{pointer}/{index}", places) for index, item in enumerate(node.items)]
    if node.entries is None:
        return node.scalar
    result: dict[str, Value] = {}
    for key, (place, child) in node.entries.items():
        below = f"{pointer}/{escape(key)}"
        places[below] = place
        result[key] = _value(child, below, places)
    return result


def escape(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _explained(error: yaml.MarkedYAMLError, text: str) -> YamlError:
    mark = error.problem_mark or error.context_mark
    place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
    problem = (error.problem or "this is not YAML").replace("\n", " ")
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    if "alias" in (error.context or ""):
        return YamlError(place, "an unquoted * begins an alias", 'quote the cron: cron: "*/5 * * * *"')
    if "\t" in line[: place.column]:
        return YamlError(place, "a tab in the indentation", "indent with spaces")
    if "cannot start any token" in problem:
        return YamlError(place, f"plain text cannot begin so ({problem})", "put the value in double quotes")
    fix = "check the indentation, and quote text that contains `: ` or ` #`"
    return YamlError(place, problem, fix)
