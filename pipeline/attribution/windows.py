"""Finds the windows that need a run, and the loop that runs them. What is due when is decided in rhythm.py.

Windows before the first span are not run by themselves, even if the inventory begins earlier: nobody was watching.
`attribute --from` runs them.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from pipeline.attribution import job
from pipeline.attribution.assembly import assemble
from pipeline.attribution.job import RunResult, Step
from pipeline.attribution.joining import SKEW_NS
from pipeline.attribution.journal import SECOND_NS, SQL, Clock, forget_superseded, read_watermark, recording_us
from pipeline.attribution.rhythm import PROVISIONAL_NS, Plan, WindowState, Work, batches, due
from pipeline.attribution.rollups import roll_up
from pipeline.errors import CheckFailed, ConfigurationError, DependencyDown
from pipeline.statements import statement
from pipeline.store.client import Store
from schemas.settings import AttributionSettings

logger = logging.getLogger(__name__)

PROVISIONAL_REST = 4  # a provisional run that took long rests this many times as long: at most a fifth of the time
FORGET_NS = 3600 * SECOND_NS
STEP_SECONDS = 5.0
LOOK_REST = 20  # looking for work takes at most a twentieth of the time, as long as that needs no more than
STEP_SECONDS_MAX = 30.0
BACKOFF_SECONDS_MAX = 60.0
FAILURES_MAX = 10
RANGE_MAX_DAYS = 400

Progress = Callable[[int, int], None]  # runs done, runs known


def no_progress(done: int, known: int) -> None:
    """Nobody looks."""


def dirty_windows(store: Store, settings: AttributionSettings, config_hash: str, now_ns: int, provisional_ns: int = PROVISIONAL_NS) -> Plan:
    """The runs that are due now, oldest first. Reads only."""

    def ask(name: str, state: WindowState) -> int:
        parameters = {**_parameters(settings, now_ns), "window_from_ns": state.window_ns, "config_hash": config_hash, "skew_ns": SKEW_NS}
        return int(store.query(statement(SQL, name), parameters).scalar())

    return due(
        window_states(store, settings, config_hash, now_ns),
        settings,
        now_ns,
        reached=lambda state: bool(ask("59_reached", state) or ask("59_joined", state)),
        since_ns=lambda state: ask("59_since", state),
        provisional_ns=provisional_ns,
    )


def window_states(store: Store, settings: AttributionSettings, config_hash: str, now_ns: int) -> list[WindowState]:
    """Windows since the first span that have news, or no closed run yet, in order of time."""
    window_ns = settings.window_seconds * SECOND_NS
    held = [(int(a), int(b)) for a, b in store.query(statement(SQL, "58_held"), {"config_hash": config_hash}).rows]
    return [
        WindowState(
            window_ns=int(at),
            kind=str(kind),
            tried_ns=int(tried),
            failed_ns=int(failed),
            touched=bool(touched),
            fresh=bool(fresh),
            near=bool(near),
            received_ns=int(received),
            held=any(a < at + window_ns and b > at for a, b in held),
        )
        for at, kind, tried, failed, touched, fresh, near, received in store.query(
            statement(SQL, "58_windows"), _parameters(settings, now_ns)
        ).rows
    ]


def _parameters(settings: AttributionSettings, now_ns: int) -> dict[str, object]:
    return {
        "window_ns": settings.window_seconds * SECOND_NS,
        "max_attempt_ns": settings.max_attempt_seconds * SECOND_NS,
        "now_ns": now_ns,
    }


def note_unconcerned(store: Store, windows: Sequence[int], watermark: dict[str, int], clock: Clock) -> None:
    """Records that all that came before `watermark` does not reach these windows, so that it is not looked at again."""
    if windows:
        parameters = {"sources": list(watermark), "offsets": list(watermark.values()), "recorded_us": recording_us(store, clock)}
        store.command(statement(SQL, "59_unconcerned"), {**parameters, "windows": list(windows)})


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
    stop: threading.Event | None = None,
    assemble: Step = assemble,
    roll_up: Step = roll_up,
) -> list[RunResult]:
    """Runs every window that `[from_ns, to_ns)` touches, dirty or not; open ones only with `provisional`. `stop` ends it between runs.

    Raises ConfigurationError for a range that is empty or longer than RANGE_MAX_DAYS, CheckFailed, DependencyDown.
    """
    check_bounds(from_ns, to_ns)
    window_ns = settings.window_seconds * SECOND_NS
    now_ns = clock()
    every = range(from_ns - from_ns % window_ns, min(to_ns, now_ns), window_ns)
    open_from = now_ns - window_ns - settings.grace_seconds * SECOND_NS
    work = [
        *(Work(group[0], group[-1] + window_ns, "closed") for group in batches([at for at in every if at <= open_from], window_ns)),
        *(Work(group[0], group[-1] + window_ns, "provisional") for group in batches([at for at in every if at > open_from], window_ns)),
    ]
    attributor = Attributor(store, settings, config_hash, clock, progress=progress, assemble=assemble, roll_up=roll_up)
    return attributor.do([item for item in work if provisional or item.kind == "closed"], stop)


def check_bounds(from_ns: int, to_ns: int) -> None:
    """Raises ConfigurationError for a range that a person cannot mean."""
    if not 0 < to_ns - from_ns <= RANGE_MAX_DAYS * 86400 * SECOND_NS:
        raise ConfigurationError(f"attribution takes a range that ends after it begins, at most {RANGE_MAX_DAYS} days at once")


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
        self._looked_s = 0.0

    def step(self, stop: threading.Event | None = None) -> list[RunResult]:
        """Does the runs that are due now. Raises CheckFailed or DependencyDown, with what was done kept."""
        now_ns = self._clock()
        watermark = read_watermark(self._store)
        plan = dirty_windows(self._store, self._settings, self._config_hash, now_ns, self._provisional_ns)
        note_unconcerned(self._store, plan.unconcerned, watermark, self._clock)
        self._looked_s = (self._clock() - now_ns) / SECOND_NS
        results = self.do(plan.work, stop)
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
        """Until `stop`. A failed run is recorded and tried again by the rhythm, whatever the data did to it; a store that does not answer
        is waited for, and given up (its error is raised) after 10 failures in a row."""
        failures = 0
        while not stop.is_set():
            wait_s = STEP_SECONDS
            try:
                self.step(stop)
                failures, wait_s = 0, min(max(STEP_SECONDS, LOOK_REST * self._looked_s), STEP_SECONDS_MAX)
            except CheckFailed as error:
                logger.error("%s", error)
            except DependencyDown as error:
                failures += 1
                if failures >= FAILURES_MAX:
                    raise
                wait_s = min(STEP_SECONDS * 2**failures, BACKOFF_SECONDS_MAX)
                logger.warning("attribution waits %.0f s: %s", wait_s, error)
            stop.wait(wait_s)
