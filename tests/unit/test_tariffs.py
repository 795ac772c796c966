"""Hours of a tariff as times: against a clock that is read minute by minute, through both changes of daylight saving."""

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.attribution.tariffs import stretches

S = 1_000_000_000
MINUTE = 60 * S
CHANGES = {
    "Europe/Berlin": (1_774_746_000, 1_792_890_000),
    "Asia/Kathmandu": (1_774_746_000,),
    "Australia/Lord_Howe": (1_775_314_800, 1_791_037_800),
}


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * S


@settings(max_examples=60, deadline=None)
@given(
    place=st.sampled_from([(zone, change) for zone, changes in CHANGES.items() for change in changes]),
    before=st.integers(0, 30 * 3600 * S),
    length=st.integers(0, 30 * 3600 * S),
    hours=st.frozensets(st.integers(0, 23)),
)
def test_they_are_the_minutes_whose_hour_is_on_the_clock(place: tuple[str, int], before: int, length: int, hours: frozenset[int]) -> None:
    zone, change = place
    low = change * S - before
    high = low + length
    found = list(stretches(low, high, zone, hours))
    assert all(a < b for a, b in found)
    assert all(earlier[1] < later[0] for earlier, later in pairwise(found))
    for minute in range(low - low % MINUTE, high, MINUTE):
        shown = datetime.fromtimestamp(minute // S, UTC).astimezone(ZoneInfo(zone)).hour
        inside = sum(max(0, min(b, minute + MINUTE) - max(a, minute)) for a, b in found)
        assert inside == (min(high, minute + MINUTE) - max(low, minute) if not hours or shown in hours else 0)


@pytest.mark.parametrize(("day", "count"), [("2026-03-29", 0), ("2026-10-25", 2), ("2026-06-01", 1)])
def test_the_hour_that_summer_time_skips_or_repeats_counts_never_or_twice(day: str, count: int) -> None:
    begin = at(f"{day}T00:00:00+00:00") - 3 * 3600 * S
    found = list(stretches(begin, begin + 27 * 3600 * S, "Europe/Berlin", {2}))
    assert sum(b - a for a, b in found) == count * 3600 * S


def test_no_hours_are_all_hours() -> None:
    assert list(stretches(5, 9, "UTC", ())) == [(5, 9)]
    assert list(stretches(9, 9, "UTC", ())) == []
