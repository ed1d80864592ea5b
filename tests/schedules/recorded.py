"""The recorded cases under tests/data, read once."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True, kw_only=True)
class FiresCase:
    expression: str
    zone: str
    start: datetime
    end: datetime
    around: str
    wildcard: bool
    fires: list[datetime]

    def __str__(self) -> str:
        return f"{self.expression} {self.zone} {self.around}"


def fires_cases() -> list[FiresCase]:
    with (_DATA / "fires.jsonl").open(encoding="utf-8") as lines:
        return [_case(json.loads(line)) for line in lines]


def _case(row: dict) -> FiresCase:
    return FiresCase(
        expression=row["expression"],
        zone=row["timezone"],
        start=datetime.fromisoformat(row["start"]),
        end=datetime.fromisoformat(row["end"]),
        around=row["around"],
        wildcard=row["wildcard"],
        fires=[datetime.fromisoformat(fire) for fire in row["fires"]],
    )


def expression_rows() -> list[dict[str, str]]:
    with (_DATA / "expressions.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
