"""When a window is run, and together with which. Pure: state in, decisions out.

A closed window (its end and the grace are past) that no closed run has read is due at once. One that got new spans is due when they have
been quiet for 30 s, or have waited for 5 min, and its last run is 5 min ago. The open window has a provisional run every 30 s. Neighbours
that are dirty too run in the same run, so a request that moves between them is never seen twice.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.attribution.journal import SECOND_NS, Kind
from schemas.settings import AttributionSettings

WINDOWS_PER_RUN_MAX = 8
QUIET_NS = 30 * SECOND_NS
RERUN_NS = 300 * SECOND_NS
PROVISIONAL_NS = 30 * SECOND_NS


@dataclass(frozen=True, slots=True)
class WindowState:
    """What the store knows of one window. `kind` is that of the newest run that did not fail ('' = none).

    `fresh`: messages that run did not know touch the window; `near`: they touch a window within max_attempt of it, whose requests may
    reach over. `received_ns` is when the last of them came. `tried_ns` is when the newest run ended, failed or not, `failed_ns` when the
    newest failed one did (0 = none). `touched`: it has spans; `held`: the inventory has a replica then, which costs without spans too.
    """

    window_ns: int
    kind: str
    tried_ns: int
    failed_ns: int
    touched: bool
    fresh: bool
    near: bool
    received_ns: int
    held: bool


@dataclass(frozen=True, slots=True)
class Work:
    """One run to do: adjoining windows `[from_ns, to_ns)`."""

    from_ns: int
    to_ns: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Plan:
    """`unconcerned`: closed windows whose neighbours' news turned out not to reach them; noting that spares asking again."""

    work: tuple[Work, ...]
    unconcerned: tuple[int, ...]


def due(
    states: Sequence[WindowState],
    settings: AttributionSettings,
    now_ns: int,
    reached: Callable[[WindowState], bool],
    since_ns: Callable[[WindowState], int],
    provisional_ns: int = PROVISIONAL_NS,
) -> Plan:
    """Decides by the rhythm above. Two questions cost a query each and are asked as seldom as possible: do a neighbour's news reach this
    window's requests, and when did the first of the news come?"""
    window_ns = settings.window_seconds * SECOND_NS
    closed_until_ns = now_ns - settings.grace_seconds * SECOND_NS - window_ns
    closed = {state.window_ns: state for state in states if state.window_ns <= closed_until_ns}
    provisional = [
        state.window_ns
        for state in states
        if closed_until_ns < state.window_ns <= now_ns and (state.touched or state.held) and now_ns - state.tried_ns >= provisional_ns
    ]

    def ready(state: WindowState) -> bool:
        if now_ns - state.tried_ns < RERUN_NS:
            return False
        return now_ns - state.received_ns >= QUIET_NS or now_ns - since_ns(state) >= RERUN_NS

    dirty: dict[int, bool] = {}  # window: is it due by itself
    unconcerned: list[int] = []
    for window, state in closed.items():
        if state.kind != "closed":
            if state.touched or state.held:
                dirty[window] = now_ns - state.failed_ns >= RERUN_NS
        elif state.fresh:
            dirty[window] = ready(state)
        elif state.near and ready(state):
            if reached(state):
                dirty[window] = True
            else:
                unconcerned.append(window)
    _join_neighbours(dirty, closed, set(unconcerned), window_ns, reached)
    together = [window for group in adjoining(sorted(dirty), window_ns) if any(dirty[window] for window in group) for window in group]
    return Plan(
        (
            *(Work(group[0], group[-1] + window_ns, "closed") for group in batches(together, window_ns)),
            *(Work(group[0], group[-1] + window_ns, "provisional") for group in batches(provisional, window_ns)),
        ),
        tuple(unconcerned),
    )


def _join_neighbours(
    dirty: dict[int, bool],
    closed: Mapping[int, WindowState],
    asked: set[int],
    window_ns: int,
    reached: Callable[[WindowState], bool],
) -> None:
    """Adds to `dirty` the windows beside those that are due if the same news reach them, even if they have just been run."""
    frontier = [window for window, is_due in dirty.items() if is_due]
    while frontier:
        window = frontier.pop()
        for beside in (window - window_ns, window + window_ns):
            state = closed.get(beside)
            if state and state.near and beside not in dirty and beside not in asked:
                asked.add(beside)
                if reached(state):
                    dirty[beside] = False
                    frontier.append(beside)


def adjoining(windows: Iterable[int], window_ns: int) -> list[list[int]]:
    """Sorted window starts, cut where one does not follow the other."""
    groups: list[list[int]] = []
    for window in windows:
        if groups and groups[-1][-1] + window_ns == window:
            groups[-1].append(window)
        else:
            groups.append([window])
    return groups


def batches(windows: Iterable[int], window_ns: int) -> list[list[int]]:
    """Adjoining windows, at most 8, never across the end of a month (one run publishes in one partition of `runs`)."""
    groups: list[list[int]] = []
    for window in windows:
        last = groups[-1] if groups else None
        if last and last[-1] + window_ns == window and len(last) < WINDOWS_PER_RUN_MAX and month_of(last[0]) == month_of(window):
            last.append(window)
        else:
            groups.append([window])
    return groups


def month_of(at_ns: int) -> tuple[int, int]:
    """Year and month (UTC): the partition of a window's rows."""
    at = datetime.fromtimestamp(at_ns // SECOND_NS, UTC)
    return at.year, at.month
