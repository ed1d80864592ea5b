"""A wall time of a zone as the instant it names, under the same gap and fold rules as a fixed-time job."""

from __future__ import annotations

from datetime import datetime, timedelta

from tocsin.clock import EPOCH
from tocsin.errors import ScheduleError
from tocsin.schedules.model import Fold, Gap
from tocsin.schedules.zones import FIRST_SECOND, LAST_SECOND, SHIFT, Row, Zone

_DAY = 86400
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall times have no zone


def resolve_wall(zone: Zone, wall: datetime, *, gap: Gap, fold: Fold) -> datetime:
    """The aware UTC instant of a naive wall time. Raises ScheduleError if it names none, or two.

    Skipped: the moment after the gap, or an error for `skip`. Repeated: the first pass, or an error for
    `both`, because one job cannot be two instants.
    """
    since = wall - _NAIVE_EPOCH
    reading, micros = since.days * _DAY + since.seconds, since.microseconds
    shown = [row for row in _rows_near(zone, reading) if row[0] <= reading - row[2] < row[1]]
    if not shown:
        return _after_gap(zone, reading, wall, gap)
    if len(shown) > 1 and fold is Fold.BOTH:
        raise ScheduleError(
            code="at_ambiguous",
            field="fold",
            detail=f"{wall.isoformat()} happens twice in {zone.name}, and `at` is one instant",
            fix="write `fold: first`, or two jobs whose `at` has an offset",
        )
    return _instant(reading - shown[0][2]) + timedelta(microseconds=micros)


def _after_gap(zone: Zone, reading: int, wall: datetime, gap: Gap) -> datetime:
    if gap is Gap.SKIP:
        raise ScheduleError(
            code="at_skipped",
            field="at",
            detail=f"{wall.isoformat()} does not exist in {zone.name}: the clock skips it",
            fix="write another time, or `gap: next_valid`",
        )
    starts = (row[0] for row in _rows_near(zone, reading) if row[3] <= reading < row[0] + row[2])
    return _instant(next(starts))


def _rows_near(zone: Zone, reading: int) -> list[Row]:
    """The rows within two days of a local reading, in order and each once."""
    low, high = (reading - 2 * _DAY) >> SHIFT, (reading + 2 * _DAY) >> SHIFT
    rows = [row for number in range(low, high + 1) for row in zone.chunk(number)[1]]
    # At a chunk's edge one stretch is two rows that overlap; cut the earlier one where the next begins.
    return [
        (row[0], min(row[1], after[0]), row[2], row[3]) if after else row
        for row, after in zip(rows, [*rows[1:], None], strict=True)
    ]


def _instant(second: int) -> datetime:
    if not FIRST_SECOND <= second <= LAST_SECOND:
        raise ScheduleError(
            code="instant_syntax",
            field="at",
            detail="the instant is outside the years 1 to 9999 in UTC",
            fix="write an instant within these years",
        )
    return EPOCH + timedelta(seconds=second)
