"""What points of one stream tell of each window, with exact fractions and no regard for speed. Independent of the SQL.

A counter is followed second by second of its own story: what it stood at, whether it began anew, and over which time the growth is
spread. A gauge is the value of its last point, as long as that is fresh.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

STALE_NS = 240_000_000_000


@dataclass(frozen=True)
class Point:
    at_ns: int
    value: float | None
    start_ns: int = 0
    delta: bool = False


def _once(points: Iterable[Point]) -> list[Point]:
    """One point per moment (equal copies are one), by time."""
    return sorted({point.at_ns: point for point in points}.values(), key=lambda point: point.at_ns)


def increases(points: Iterable[Point]) -> list[tuple[int, int, Fraction]]:
    """(from, to, growth) of a counter."""
    found = []
    last: Point | None = None
    for point in _once(points):
        if point.value is None:
            continue
        value = Fraction(point.value)
        known_start = point.start_ns if 0 < point.start_ns < point.at_ns else None
        fresh = last is not None and point.at_ns - last.at_ns <= STALE_NS
        if point.delta:
            begin = known_start or (point.at_ns if point.start_ns == point.at_ns or not fresh or last is None else last.at_ns)
            found.append((max(begin, point.at_ns - STALE_NS), point.at_ns, value))
        elif known_start is not None and (last is None or known_start > last.at_ns):
            if point.at_ns - known_start <= STALE_NS:
                found.append((known_start, point.at_ns, value))
        elif fresh and last is not None and last.value is not None:
            before = Fraction(last.value)
            found.append((last.at_ns, point.at_ns, value if value < before else value - before))
        last = point
    return found


def counted(points: Iterable[Point], window_ns: int) -> dict[int, Fraction]:
    """Window start -> growth in it."""
    sums: dict[int, Fraction] = defaultdict(Fraction)
    for begin, end, growth in increases(points):
        if begin == end:
            sums[begin // window_ns * window_ns] += growth
            continue
        at = begin
        while at < end:
            border = min(end, (at // window_ns + 1) * window_ns)
            sums[at // window_ns * window_ns] += growth * Fraction(border - at, end - begin)
            at = border
    return dict(sums)


def held(points: Iterable[Point], window_ns: int) -> dict[int, tuple[Fraction, int, float]]:
    """Window start -> (integral over ns, ns known, largest reading) of a gauge."""
    found: dict[int, tuple[Fraction, int, float]] = {}
    ordered = _once(points)
    for number, point in enumerate(ordered):
        if point.value is None:
            continue
        end = point.at_ns + STALE_NS
        if number + 1 < len(ordered):
            end = min(end, ordered[number + 1].at_ns)
        at = point.at_ns
        while at < end:
            window = at // window_ns * window_ns
            border = min(end, window + window_ns)
            integral, known, largest = found.get(window, (Fraction(0), 0, point.value))
            found[window] = (integral + Fraction(point.value) * (border - at), known + border - at, max(largest, point.value))
            at = border
    return found
