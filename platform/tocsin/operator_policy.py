"""The operator's policy file (`TOCSIN_POLICY_FILE`): what teams may loosen. Strict, read once at start.

    docker:
      default: {networks: [], maxMemory: 512Mi}
      teams:
        billing: {images: [registry.internal/billing/**], networks: [billing], root: true}

API and workers read the same file: the API refuses jobs by it, a worker checks again before it executes. Without
a file the built-in rules hold, which loosen nothing.

Weakness: a change of the file is seen when a process starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from tocsin.errors import InvalidError, Problem
from tocsin.model.docker_policy import DockerPolicy
from tocsin.model.duration import Document
from tocsin.model.problems import parse

FILE_BYTES = 4_194_304
_VARIABLE = "TOCSIN_POLICY_FILE"


class OperatorPolicy(Document):
    """The whole file."""

    docker: DockerPolicy = Field(default_factory=DockerPolicy, description="What containers may have.")


class _Loader(yaml.SafeLoader):
    """Refuses what one of two equal keys would hide, and aliases, which no policy needs."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "aliases are not read", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if name in seen or not isinstance(name, str):
                words = f"the key {name!r:.80} " + ("comes twice" if name in seen else "is no text")
                raise yaml.constructor.ConstructorError(None, None, words, key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def load_policy(path: str) -> OperatorPolicy:
    """The policy in this file, the built-in one for an empty path. Raises InvalidError that names every problem."""
    if not path:
        return OperatorPolicy()
    try:
        with Path(path).open("rb") as file:
            raw = file.read(FILE_BYTES + 1)
        if len(raw) > FILE_BYTES:
            raise _invalid("", f"{path} is larger than {FILE_BYTES} bytes", "shorten it")
        document = yaml.load(raw, _Loader)
    except OSError as error:
        raise _invalid(
            "", f"{path} cannot be read: {error.strerror}", "name a file that can be read"
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        words = f"{path} is not YAML that can be read: {where}{getattr(error, 'problem', None) or error}"
        raise _invalid("", words, "correct the file there") from None
    except RecursionError:
        raise _invalid("", f"{path} is nested too deep", "correct the file") from None
    try:
        return parse(OperatorPolicy, {} if document is None else document)
    except InvalidError as error:
        problems = [
            Problem(pointer=f"{_VARIABLE}{p.pointer}", code=p.code, detail=f"{path}: {p.detail}", fix=p.fix)
            for p in error.problems
        ]
        raise InvalidError(problems) from None


def _invalid(at: str, detail: str, fix: str) -> InvalidError:
    return InvalidError([Problem(pointer=f"{_VARIABLE}{at}", code="policy_file", detail=detail, fix=fix)])
