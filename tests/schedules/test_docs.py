"""The examples of docs/schedules.md are true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tocsin.schedules import ScheduleError, describe, parse

_TEXT = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^\| `(\{.*\})` \| (.*) \|$", _TEXT.split("## Examples")[1], re.M)
REFUSED = re.findall(
    r"^\| (`[^|]*) \| [^|]* \| [^|]* \|$", _TEXT.split("Refused on purpose")[1].split("###")[0], re.M
)


@pytest.mark.parametrize(("spec", "words"), EXAMPLES)
def test_an_example_is_described_as_it_says(spec: str, words: str) -> None:
    assert describe(parse(yaml.safe_load(spec))) == words


@pytest.mark.parametrize("text", [text for cell in REFUSED for text in re.findall(r"`([^`]+)`", cell)])
def test_what_is_refused_on_purpose_is_refused(text: str) -> None:
    place = {"mon-sun": "0 0 * * mon-sun", "monday": "0 0 * * monday"}
    with pytest.raises(ScheduleError):
        parse(place.get(text, text))


def test_the_tables_were_found() -> None:
    assert len(EXAMPLES) >= 6
    assert len(REFUSED) >= 7
