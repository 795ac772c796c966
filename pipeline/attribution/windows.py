"""Which windows need a run, and the loop that runs them. Deciding is pure; reading the state and running are thin.

A closed window (its end and the grace are past) that no closed run has read is due at once. One that got new spans is due when they have
been quiet for 30 s, at most every 5 min; at the latest 5 min after that. The open window has a provisional run every 30 s. Neighbours that
are dirty too run in the same run, so a request that moves between them is never seen twice. Windows before the first span are not run by
themselves, even if the inventory begins earlier: nobody was watching. `attribute --from` runs them.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.attribution import job
from pipeline.attribution.assembly import assemble
from pipeline.attribution.job import RunResult, Step
from pipeline.attribution.journal import SECOND_NS, SQL, Clock, Kind, forget_superseded
from pipeline.attribution.rollups import roll_up
from pipeline.errors import CheckFailed, DependencyDown
from pipeline.statements import statement
from pipeline.store import Store
from schemas.settings import AttributionSettings

logger = logging.getLogger(__name__)

WINDOWS_PER_RUN_MAX = 8
QUIET_NS = 30 * SECOND_NS
RERUN_NS = 300 * SECOND_NS
PROVISIONAL_NS = 30 * SECOND_NS
PROVISIONAL_REST = 4  # a provisional run that took long rests this many times as long: at most a fifth of the time
FORGET_NS = 3600 * SECOND_NS
STEP_SECONDS = 5.0
BACKOFF_SECONDS_MAX = 60.0

FAILURES_MAX = 10

Progress = Callable[[int, int], None]  # runs done, runs known


def no_progress(done: int, known: int) -> None:
    """Nobody looks."""


@dataclass(frozen=True, slots=True)
class WindowState:
    """What the store knows of one window. `kind` is that of the newest run that did not fail ('' = none); `tried_ns` is when the newest
    run ended, failed or not, `failed_ns` when the newest failed one did (0 = none)."""

    window_ns: int
    kind: str
    tried_ns: int
    failed_ns: int
    touched: bool
    fresh: bool
    near: bool
    received_ns: int
    since_ns: int
    held: bool


@dataclass(frozen=True, slots=True)
class Work:
    """One run to do: adjoining windows `[from_ns, to_ns)`."""

    from_ns: int
    to_ns: int
    kind: Kind


def dirty_windows(
    store: Store, settings: AttributionSettings, config_hash: str, now_ns: int, provisional_ns: int = PROVISIONAL_NS
) -> list[Work]:
    """The runs that are due now, oldest first. Reads only."""
    parameters = _parameters(settings, config_hash, now_ns)

    def touched(state: WindowState) -> bool:
        return bool(store.query(statement(SQL, "59_touched"), {**parameters, "window_from_ns": state.window_ns}).scalar())

    return due(window_states(store, settings, config_hash, now_ns), settings, now_ns, touched, provisional_ns)


def window_states(store: Store, settings: AttributionSettings, config_hash: str, now_ns: int) -> list[WindowState]:
    """Windows since the first span that have news, or no closed run yet."""
    rows = store.query(statement(SQL, "58_windows"), _parameters(settings, config_hash, now_ns)).rows
    return [
        WindowState(
            int(at), str(kind), int(tried), int(failed), bool(touched), bool(fresh), bool(near), int(received), int(since), bool(held)
        )
        for at, kind, tried, failed, touched, fresh, near, received, since, held in rows
    ]


def _parameters(settings: AttributionSettings, config_hash: str, now_ns: int) -> dict[str, object]:
    return {
        "window_ns": settings.window_seconds * SECOND_NS,
        "max_attempt_ns": settings.max_attempt_seconds * SECOND_NS,
        "config_hash": config_hash,
        "now_ns": now_ns,
    }


def due(
    states: Sequence[WindowState],
    settings: AttributionSettings,
    now_ns: int,
    touched: Callable[[WindowState], bool],
    provisional_ns: int = PROVISIONAL_NS,
) -> list[Work]:
    """Decides by the rhythm above. `touched` is asked only for windows that nothing but a neighbour's news could have changed."""
    window_ns = settings.window_seconds * SECOND_NS
    grace_ns = settings.grace_seconds * SECOND_NS
    dirty: dict[int, bool] = {}  # window: is it due by itself
    provisional: list[int] = []
    for state in states:
        if state.window_ns > now_ns:
            continue
        rested = now_ns - state.tried_ns
        if state.window_ns + window_ns + grace_ns > now_ns:
            if (state.touched or state.held) and rested >= provisional_ns:
                provisional.append(state.window_ns)
        elif state.kind != "closed":
            if state.touched or state.held:
                dirty[state.window_ns] = now_ns - state.failed_ns >= RERUN_NS
        elif state.fresh or (state.near and rested >= RERUN_NS and touched(state)):
            quiet = now_ns - state.received_ns >= QUIET_NS
            dirty[state.window_ns] = rested >= RERUN_NS and (quiet or now_ns - state.since_ns >= RERUN_NS)
    together = [window for group in adjoining(sorted(dirty), window_ns) if any(dirty[window] for window in group) for window in group]
    return [
        *(Work(group[0], group[-1] + window_ns, "closed") for group in batches(together, window_ns)),
        *(Work(group[0], group[-1] + window_ns, "provisional") for group in batches(provisional, window_ns)),
    ]


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
        if last and last[-1] + window_ns == window and len(last) < WINDOWS_PER_RUN_MAX and job.month_of(last[0]) == job.month_of(window):
            last.append(window)
        else:
            groups.append([window])
    return groups


def attribute_range(
    store: Store,
    settings: AttributionSettings,
    config_hash: str,
    from_ns: int,
    to_ns: int,
    clock: Clock = time.time_ns,
    *,
    provisional: bool = False,
    progress: Progress = no_progress,
    assemble: Step = assemble,
    roll_up: Step = roll_up,
) -> list[RunResult]:
    """Runs every window that `[from_ns, to_ns)` touches, dirty or not; open ones only with `provisional`. For the command line."""
    window_ns = settings.window_seconds * SECOND_NS
    now_ns = clock()
    every = range(from_ns - from_ns % window_ns, min(to_ns, now_ns), window_ns)
    open_from = now_ns - window_ns - settings.grace_seconds * SECOND_NS
    work = [
        *(Work(group[0], group[-1] + window_ns, "closed") for group in batches([at for at in every if at <= open_from], window_ns)),
        *(Work(group[0], group[-1] + window_ns, "provisional") for group in batches([at for at in every if at > open_from], window_ns)),
    ]
    attributor = Attributor(store, settings, config_hash, clock, progress=progress, assemble=assemble, roll_up=roll_up)
    return attributor.do([item for item in work if provisional or item.kind == "closed"])


class Attributor:
    """Keeps the attributed tables up to date: `step` does what is due, `run` steps until told to stop. One thread, one store handle."""

    def __init__(
        self,
        store: Store,
        settings: AttributionSettings,
        config_hash: str,
        clock: Clock = time.time_ns,
        *,
        progress: Progress = no_progress,
        assemble: Step = assemble,
        roll_up: Step = roll_up,
    ) -> None:
        self._store, self._settings, self._config_hash, self._clock = store, settings, config_hash, clock
        self._progress, self._assemble, self._roll_up = progress, assemble, roll_up
        self._provisional_ns = PROVISIONAL_NS
        self._forgot_ns = 0

    def step(self, stop: threading.Event | None = None) -> list[RunResult]:
        """Does the runs that are due now. Raises CheckFailed, DependencyDown or ClickHouse's error, with what was done kept."""
        now_ns = self._clock()
        results = self.do(dirty_windows(self._store, self._settings, self._config_hash, now_ns, self._provisional_ns), stop)
        if now_ns - self._forgot_ns >= FORGET_NS:
            forget_superseded(self._store, self._settings, self._clock)
            self._forgot_ns = now_ns
        return results

    def do(self, work: Sequence[Work], stop: threading.Event | None = None) -> list[RunResult]:
        """One run after the other; between two it looks at `stop`."""
        results: list[RunResult] = []
        for item in work:
            if stop is not None and stop.is_set():
                break
            self._progress(len(results), len(work))
            result = job.run(
                self._store,
                self._settings,
                self._config_hash,
                item.from_ns,
                item.to_ns,
                item.kind,
                self._clock,
                assemble=self._assemble,
                roll_up=self._roll_up,
            )
            if item.kind == "provisional":
                self._provisional_ns = max(PROVISIONAL_NS, int(PROVISIONAL_REST * result.seconds * SECOND_NS))
            logger.info("attributed", extra={"run": {"run_id": str(result.run_id), "state": result.state, "kind": result.kind}})
            results.append(result)
        self._progress(len(results), len(work))
        return results

    def run(self, stop: threading.Event) -> None:
        """Until `stop`. A failed check is recorded and tried again by the rhythm; a store that does not answer is waited for, and
        given up (its error is raised) after 10 failures in a row."""
        failures = 0
        while not stop.is_set():
            wait_s = STEP_SECONDS
            try:
                self.step(stop)
                failures = 0
            except CheckFailed as error:
                logger.error("%s", error)
            except (DependencyDown, ClickHouseError) as error:
                failures += 1
                if failures >= FAILURES_MAX:
                    raise
                wait_s = min(STEP_SECONDS * 2**failures, BACKOFF_SECONDS_MAX)
                logger.warning("attribution waits %.0f s: %s", wait_s, error)
            stop.wait(wait_s)
