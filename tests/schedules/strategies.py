"""Random schedules for the property tests, and how many examples to run.

SCHEDULES_EXAMPLES sets the number of examples of every property (default: a few; deep runs: thousands).
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from schedules.oracle import zone

EXAMPLES = int(os.environ.get("SCHEDULES_EXAMPLES", "60"))
few = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="SCHEDULES_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)

MONTHS = ["jan", "FEB", "Mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "MON", "Tue", "wed", "thu", "fri", "sat"]
ZONES = [
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "America/Caracas",
    "Asia/Pyongyang", "Pacific/Apia", "America/Havana", "Asia/Beirut", "America/Santiago", "Pacific/Kwajalein",
    "Antarctica/Troll", "Africa/Casablanca", "Europe/Dublin", "Asia/Gaza", "America/Nuuk", "Asia/Kathmandu",
    "Asia/Tehran", "Africa/Cairo", "America/Sao_Paulo", "Pacific/Chatham", "Antarctica/Casey", "Asia/Amman",
    "Pacific/Fakaofo", "Africa/Juba", "Europe/Volgograd", "America/Scoresbysund", "Africa/El_Aaiun",
    "Antarctica/Vostok", "Pacific/Kiritimati", "America/Adak",
]  # fmt: skip


@lru_cache
def changes(name: str) -> list[datetime]:
    """The UTC minutes from 1972 to 2040 at which the zone's offset changes (found hour by hour)."""
    place, found = zone(name), []
    at, end = datetime(1972, 6, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
    old = at.astimezone(place).utcoffset()
    while at < end:
        following = at + timedelta(hours=6)
        new = following.astimezone(place).utcoffset()
        if new != old:
            while (at + timedelta(minutes=1)).astimezone(place).utcoffset() == old:
                at += timedelta(minutes=1)
            found.append(at + timedelta(minutes=1))
        at, old = following, new
    return found


def _span(draw: st.DrawFn, low: int, high: int, names: list[str] | None) -> str:
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    named = names is not None and draw(st.booleans()) and last - low < len(names)
    text = f"{names[first - low]}-{names[last - low]}" if named and names else f"{first}-{last}"
    return f"{text}/{draw(st.integers(1, last - first))}" if last > first and draw(st.booleans()) else text


@st.composite
def field(draw: st.DrawFn, low: int, high: int, names: list[str] | None = None, specials: str = "") -> str:
    """A field of one dialect: half of them a plain star or value, else stars with steps, ranges and lists."""
    values = st.integers(low, high)
    sort = draw(st.sampled_from(["star", "value", "value", "step", "range", "list", "special"]))
    if sort == "star":
        return "*"
    if sort == "step":
        star_high = 6 if specials == "weekday" else high
        return f"*/{draw(st.integers(1, star_high - low))}"
    if sort == "range":
        return _span(draw, low, high, names)
    if sort == "list":
        items = st.one_of(values.map(str), st.composite(_span)(low, high, names))
        return ",".join(draw(st.lists(items, min_size=2, max_size=4)))
    if sort == "special" and specials == "day":
        return draw(st.sampled_from(["L", "l", "1,L", "15,L"]))
    if sort == "special" and specials == "weekday":
        day = draw(st.sampled_from([*map(str, range(8)), *WEEKDAYS]))
        return draw(st.sampled_from([f"{day}L", f"{day}#{draw(st.integers(1, 5))}", f"{day}#1,{day}#3"]))
    value = draw(values)
    return names[value - low] if names and value - low < len(names) and draw(st.booleans()) else str(value)


@st.composite
def expressions(draw: st.DrawFn, *, seconds: bool = False, dense: bool = False) -> str:
    """A random expression. `dense`: any day, so that something happens in a short window."""
    hour = draw(st.sampled_from(["0", "1", "2", "3", "*", "0-3", "1,2", "*/2"]) | field(0, 23))
    words = [draw(field(0, 59)), hour]
    if dense or draw(st.booleans()):
        words += ["*", "*", "*"]
    else:
        words += [
            draw(field(1, 31, specials="day")),
            draw(st.just("*") | field(1, 12, MONTHS)),
            draw(field(0, 7, WEEKDAYS, specials="weekday")),
        ]
    if seconds:
        words.insert(0, draw(field(0, 59).filter(lambda text: text != "*")))
    return " ".join(words)


@st.composite
def places(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone and an instant, most often within a day of one of its clock changes."""
    name = draw(st.sampled_from(ZONES))
    near = changes(name)
    if near and draw(st.integers(0, 5)):
        at = draw(st.sampled_from(near)) + timedelta(minutes=draw(st.integers(-1500, 300)))
    else:
        at = datetime(1975, 1, 1, tzinfo=UTC) + timedelta(minutes=draw(st.integers(0, 33_000_000)))
    return name, at + timedelta(microseconds=draw(st.sampled_from([0, 0, 1, 30_000_000, 59_999_999])))
