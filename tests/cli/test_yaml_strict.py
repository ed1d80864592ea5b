"""The strict YAML reader: what each scalar means, and what is refused where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_cli.files.yaml_strict import Place, YamlError, read
from tocsin_cli.views.emit import yaml_documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("Off", "Off"), ("y", "y"),
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("10", 10), ("-3", -3), ("010", "010"), ("0o10", "0o10"), ("0x1f", "0x1f"), ("1_000", "1_000"),
        ("2:30", "2:30"), ("190:20:30", "190:20:30"), ("1.5", 1.5), ("1e3", 1000.0), ("1.", "1."),
        (".5", ".5"), (".inf", ".inf"), (".nan", ".nan"), ("'10'", "10"), ('"true"', "true"),
        ("2026-03-08", "2026-03-08"), ("2026-03-08T02:30:00", "2026-03-08T02:30:00"),
        ("30 2 * * *", "30 2 * * *"), ('"*/5 * * * *"', "*/5 * * * *"), ("=", "="),
    ],
)  # fmt: skip
def test_scalars(text: str, value: object) -> None:
    (document,) = read(f"key: {text}\n")
    assert document.value == {"key": value}
    assert type(document.value["key"]) is type(value)  # type: ignore[index, call-overload]


def test_a_key_stays_text() -> None:
    assert read("on: 1\n2: 3\nyes: 4\n")[0].value == {"on": 1, "2": 3, "yes": 4}


@pytest.mark.parametrize(
    ("text", "place", "problem", "fix"),
    [
        ("a: 1\nb: 2\na: 3\n", (3, 1), "the key a comes twice (first on line 1)", "keep one"),
        ("s:\n  cron: */5 * * * *\n", (2, 10), "an unquoted * begins an alias", "quote the cron"),
        ("s:\n  cron: * * * * *\n", (2, 10), "an unquoted * begins an alias", "quote the cron"),
        ("a: *b\n", (1, 4), "*b refers to nothing", "quote"),
        ("a: &a [*a]\n", (1, 8), "*a refers to nothing", "quote"),
        ("a: @daily\n", (1, 4), "plain text cannot begin so", "double quotes"),
        ("a: !!int 3\n", (1, 4), "the tag tag:yaml.org,2002:int", "remove the tag"),
        ("a: !!python/object:os.system x\n", (1, 4), "the tag tag:yaml.org,2002:python", "remove the tag"),
        ("a: !x {b: c}\n", (1, 4), "the tag !x", "remove the tag"),
        ("<<: {a: 1}\n", (1, 1), "merge keys", "defaults"),
        ("a:\n\tb: 1\n", (2, 1), "a tab in the indentation", "spaces"),
        ("a: b: c\n", (1, 5), "mapping values are not allowed here", "quote"),
        ("? [1]\n: 2\n", (1, 3), "a key is not text", "plain text"),
        ("a: 1\nb: \x07\n", (2, 1), "a character that YAML does not allow", "remove"),
        ("[" * 70 + "]" * 70, (1, 65), "more than 63 levels", "flatter"),
    ],
)
def test_refusals(text: str, place: tuple[int, int], problem: str, fix: str) -> None:
    with pytest.raises(YamlError) as caught:
        read(text)
    assert (caught.value.place, fix in caught.value.fix) == (Place(*place), True)
    assert problem in caught.value.problem


def test_a_small_file_cannot_unfold() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(YamlError, match="more than 100000 values"):
        read("\n".join(lines))


def test_anchors_documents_and_places() -> None:
    first, second = read("a: &x {b: 1}\nc: *x\n---\n---\nl:\n- {m: 2}\n")
    assert first.value == {"a": {"b": 1}, "c": {"b": 1}}
    assert second.places["#/l/0/m"] == Place(6, 4)
    assert first.places["#/c"] == Place(2, 1)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1, max_size=6), _json, min_size=1, max_size=4))
def test_what_is_written_is_read_back(document: dict[str, object]) -> None:
    assert [found.value for found in read(yaml_documents([document]))] == [document]


@pytest.mark.parametrize(
    "text", ["1e100", "1E-2", "0.5", "0o7", "true", "~", "", "-0", "1_000", "12:30:45", "yes"]
)
def test_text_that_reads_like_something_else_stays_text(text: str) -> None:
    assert read(yaml_documents([{"x": text}]))[0].value == {"x": text}
