"""Tariffs by the hour of the day, written out as times. Pure.

Hours are those of a wall clock: on the day that loses an hour a tariff loses it too, and on the day that repeats one it holds twice.
"""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

SECOND_NS = 1_000_000_000
GRID_NS = 900 * SECOND_NS  # offsets from UTC are multiples of a quarter of an hour


def stretches(from_ns: int, to_ns: int, time_zone: str, hours: Collection[int]) -> Iterator[tuple[int, int]]:
    """The parts `[a, b)` of `[from_ns, to_ns)` in which the local clock shows one of `hours`, in order; no hours are all hours."""
    if not hours:
        if from_ns < to_ns:
            yield from_ns, to_ns
        return
    zone, begin = ZoneInfo(time_zone), None
    for at in range(from_ns - from_ns % GRID_NS, to_ns, GRID_NS):
        holds = datetime.fromtimestamp(at // SECOND_NS, UTC).astimezone(zone).hour in hours
        if holds and begin is None:
            begin = max(at, from_ns)
        elif not holds and begin is not None:
            yield begin, at
            begin = None
    if begin is not None:
        yield begin, to_ns
