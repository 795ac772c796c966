"""Which windows are run, when, and together with which."""

import threading
from collections.abc import Iterable
from typing import Any

import pytest

from pipeline.attribution.rhythm import Plan, WindowState, Work, batches, due
from pipeline.attribution.scope import Scope
from pipeline.attribution.windows import FAILURES_MAX, Attributor, attribute_range, dirty_windows
from pipeline.errors import CheckFailed, StoreDown
from pipeline.store.client import Store
from schemas.settings import AttributionSettings
from tests.sql.gpu_facts import HELD, PRICE, S, T, fill
from tests.sql.test_attribution_job import ONE, Clock, Told

SETTINGS = AttributionSettings()
Q = 900 * S  # a window
NOW = T + 40 * Q


def state(n: int, kind: str = "closed", rested_s: int = 3600, **more: Any) -> WindowState:
    facts = {"failed_ns": 0, "touched": True, "fresh": False, "near": False, "received_ns": NOW - 3600 * S, "held": True} | more
    return WindowState(T + n * Q, kind, NOW - rested_s * S if kind else 0, **facts)


def plan(*states: WindowState, reached: Any = (), since_s: int = 3600) -> Plan:
    return due(states, SETTINGS, NOW, lambda s: (s.window_ns - T) // Q in reached, lambda _: NOW - since_s * S)


def numbers(work: Iterable[Work]) -> list[tuple[int, int, str]]:
    return [((w.from_ns - T) // Q, (w.to_ns - T) // Q, w.kind) for w in work]


def decide(*states: WindowState, **answers: Any) -> list[tuple[int, int, str]]:
    return numbers(plan(*states, **answers).work)


def test_a_closed_window_that_was_never_run_is_due_at_once() -> None:
    assert decide(state(1, kind="")) == [(1, 2, "closed")]
    assert decide(state(1, kind="provisional", rested_s=1)) == [(1, 2, "closed")]


def test_a_window_without_spans_and_without_machines_is_never_run() -> None:
    assert decide(state(1, kind="", touched=False, held=False)) == []


def test_a_failed_run_is_tried_again_after_five_minutes() -> None:
    assert decide(state(1, kind="", failed_ns=NOW - 299 * S)) == []
    assert decide(state(1, kind="", failed_ns=NOW - 300 * S)) == [(1, 2, "closed")]


@pytest.mark.parametrize(
    ("rested_s", "quiet_s", "since_s", "runs"),
    [(300, 30, 30, True), (300, 29, 299, False), (300, 1, 300, True), (299, 200, 250, False)],
)
def test_new_spans_wait_until_they_are_quiet_but_not_for_ever(rested_s: int, quiet_s: int, since_s: int, runs: bool) -> None:
    news = state(1, rested_s=rested_s, fresh=True, received_ns=NOW - quiet_s * S)
    assert decide(news, since_s=since_s) == ([(1, 2, "closed")] if runs else [])


def test_news_next_door_counts_only_if_a_trace_reaches_over() -> None:
    assert plan(state(1, near=True)) == Plan((), (T + Q,))
    assert decide(state(1, near=True), reached=[1]) == [(1, 2, "closed")]
    assert plan(state(1, near=True, rested_s=299)) == Plan((), ())


def test_adjoining_dirty_windows_run_together_even_if_one_has_just_been_run() -> None:
    states = [state(1, fresh=True), state(2, fresh=True, rested_s=10), state(4, fresh=True, rested_s=10)]
    assert decide(*states) == [(1, 3, "closed")]


def test_neighbours_that_the_same_news_reach_join_even_if_they_have_just_been_run() -> None:
    states = (
        [state(n, near=True, rested_s=10) for n in (1, 2)] + [state(3, fresh=True)] + [state(n, near=True, rested_s=10) for n in (4, 6)]
    )
    assert decide(*states, reached=[1, 2, 6]) == [(1, 4, "closed")]
    assert decide(*states, reached=[1]) == [(3, 4, "closed")]


def test_the_open_window_is_run_provisionally_every_thirty_seconds() -> None:
    assert decide(state(39, kind="closed", rested_s=5)) == []
    assert decide(state(40, kind="provisional", rested_s=29)) == []
    assert decide(state(40, kind="provisional", rested_s=30)) == [(40, 41, "provisional")]
    assert decide(state(41, kind="")) == []


def test_a_run_has_at_most_eight_windows_and_one_month() -> None:
    month_end = 1_796_083_200 * S  # 2026-12-01T00:00:00Z
    assert [len(group) for group in batches([T + n * Q for n in range(20)], Q)] == [8, 8, 4]
    assert batches([month_end - Q, month_end, month_end + 2 * Q], Q) == [[month_end - Q], [month_end], [month_end + 2 * Q]]


def arrive(store: Store, offset: int, at_ns: int, received_ns: int, trace: str = "trace", length_s: int = 10) -> None:
    """A span as the loader's views leave it: in spans, and its quarter hours in arrivals."""
    place = {"topic": "otlp_spans", "log_partition": 0, "log_offset": offset, "received_ns": received_ns}
    cells = {at_ns // Q * 900, (at_ns + length_s * S) // Q * 900}
    store.insert_rows("arrivals", [place | {"window_from": cell, "spans": 1} for cell in cells])
    span = {
        "start_hour": at_ns // (3600 * S) * 3600,
        "trace_id": trace.ljust(16),
        "span_id": f"{offset:08d}",
        "started_at": f"{at_ns // S}.000000000",
        "duration_ns": length_s * S,
    }
    store.insert_rows("spans", [place | span])


def wanted(store: Store, now_ns: int, config: str = "c") -> list[tuple[int, int, str]]:
    return numbers(dirty_windows(store, SETTINGS, config, now_ns).work)


def nothing(store: Store, scope: Scope) -> None:
    """No request."""


def attribute(store: Store, first: int, end: int, now_ns: int) -> None:
    attribute_range(store, SETTINGS, "c", T + first * Q, T + end * Q, Clock(now_ns), assemble=nothing, provisional=True)


def test_an_empty_store_has_nothing_to_run(store: Store) -> None:
    fill(store, [], [HELD], [PRICE])
    assert wanted(store, NOW) == []


def test_windows_are_run_from_the_first_span_until_now_because_idle_machines_cost(store: Store) -> None:
    arrive(store, 0, T + 3 * Q, T + 3 * Q)
    assert wanted(store, T + 10 * Q) == [(3, 4, "closed")]
    fill(store, [], [HELD], [PRICE])
    assert wanted(store, T + 10 * Q) == [(3, 9, "closed"), (9, 11, "provisional")]
    attribute(store, 3, 11, T + 10 * Q)
    assert wanted(store, T + 10 * Q + 29 * S) == []
    assert wanted(store, T + 10 * Q + 31 * S) == [(9, 11, "provisional")]
    assert wanted(store, T + 10 * Q + 300 * S) == [(9, 10, "closed"), (10, 11, "provisional")]


def test_a_late_span_dirties_its_window_and_every_window_of_its_trace(store: Store) -> None:
    arrive(store, 0, T + 2 * Q - 100 * S, T + 2 * Q, "long")
    arrive(store, 1, T + 1 * Q, T + 2 * Q, "other")
    attribute(store, 1, 3, T + 5 * Q)
    assert wanted(store, T + 6 * Q) == []
    arrive(store, 2, T + 2 * Q + 100 * S, T + 6 * Q, "long")
    assert wanted(store, T + 6 * Q + 10 * S) == []  # not quiet
    assert wanted(store, T + 6 * Q + 31 * S) == [(1, 3, "closed")]
    arrive(store, 3, T + 2 * Q + 100 * S, T + 6 * Q + 290 * S, "long")
    assert wanted(store, T + 6 * Q + 299 * S) == []  # again not quiet
    assert wanted(store, T + 6 * Q + 300 * S) == [(1, 3, "closed")]  # waited long enough


def test_a_late_span_of_another_trace_leaves_the_neighbour_alone(store: Store) -> None:
    arrive(store, 0, T + 2 * Q - 100 * S, T + 2 * Q, "long")
    arrive(store, 1, T + 2 * Q, T + 2 * Q, "other")
    attribute(store, 1, 3, T + 5 * Q)
    arrive(store, 2, T + 2 * Q + 100 * S, T + 6 * Q, "third")
    assert dirty_windows(store, SETTINGS, "c", T + 7 * Q) == Plan((Work(T + 2 * Q, T + 3 * Q, "closed"),), (T + Q,))


def test_a_window_that_news_do_not_reach_is_not_asked_about_again_until_more_come(store: Store) -> None:
    arrive(store, 0, T + 2 * Q - 100 * S, T + 2 * Q, "long")
    attribute(store, 1, 3, T + 5 * Q)
    arrive(store, 1, T + 2 * Q + 100 * S, T + 6 * Q, "third")
    before = current(store)
    Attributor(store, SETTINGS, "c", Clock(T + 7 * Q), assemble=nothing).step()
    assert current(store) == before
    assert dirty_windows(store, SETTINGS, "c", T + 8 * Q) == Plan((), ())
    arrive(store, 2, T + 2 * Q + 200 * S, T + 8 * Q, "long")
    assert wanted(store, T + 9 * Q) == [(1, 3, "closed")]


def current(store: Store) -> dict[int, int]:
    return dict(store.query("SELECT toUnixTimestamp(window_from), run_id FROM current_runs").rows)


def test_a_redelivered_span_dirties_nothing(store: Store) -> None:
    arrive(store, 5, T + Q, T + Q)
    attribute(store, 1, 2, T + 5 * Q)
    arrive(store, 5, T + Q, T + 5 * Q)
    assert wanted(store, T + 9 * Q) == []


def test_what_arrives_during_a_run_is_not_forgotten(store: Store) -> None:
    arrive(store, 0, T + Q, T + Q)

    def meanwhile(store: Store, scope: Scope) -> None:
        arrive(store, 1, T + Q + 5 * S, T + 5 * Q)

    attribute_range(store, SETTINGS, "c", T + Q, T + 2 * Q, Clock(T + 5 * Q), assemble=meanwhile)
    assert wanted(store, T + 6 * Q) == [(1, 2, "closed")]


def test_small_windows_are_mapped_from_the_quarter_hours_of_arrivals(store: Store) -> None:
    arrive(store, 0, T + Q, T + Q)
    settings = AttributionSettings(window_seconds=300)
    assert dirty_windows(store, settings, "c", T + 5 * Q).work == (Work(T + Q, T + 2 * Q, "closed"),)


def test_a_range_runs_whole_windows_and_leaves_the_open_ones_unless_asked(store: Store) -> None:
    fill(store, [], [HELD], [PRICE])
    seen: list[tuple[int, int]] = []
    how: dict[str, Any] = {"assemble": Told(ONE), "progress": lambda done, known: seen.append((done, known))}
    results = attribute_range(store, SETTINGS, "c", T + 5, T + 12 * Q + 1, Clock(T + 11 * Q + 5 * S), **how)
    assert [((r.from_ns - T) // Q, (r.to_ns - T) // Q) for r in results] == [(0, 8), (8, 10)]
    assert seen == [(0, 2), (1, 2), (2, 2)]
    results = attribute_range(store, SETTINGS, "c", T + 10 * Q, T + 12 * Q + 1, Clock(T + 11 * Q + 5 * S), provisional=True, **how)
    assert [((r.from_ns - T) // Q, (r.to_ns - T) // Q, r.kind) for r in results] == [(10, 12, "provisional")]


class Stop(threading.Event):
    """Ends the loop after some waits, without waiting."""

    def __init__(self, waits: int) -> None:
        super().__init__()
        self.left, self.waited = waits, [0.0][:0]

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        self.left -= 1
        if self.left == 0:
            self.set()
        return self.is_set()


def test_the_loop_does_what_is_due_and_stops_when_told(store: Store) -> None:
    arrive(store, 0, T + 10 * S, T)
    fill(store, [], [HELD], [PRICE])
    stop = Stop(2)
    Attributor(store, SETTINGS, "c", Clock(T + 2 * Q + 400 * S), assemble=Told(ONE)).run(stop)
    kinds = store.query("SELECT toUnixTimestamp(window_from), toString(kind) FROM current_runs ORDER BY window_from").rows
    assert kinds == ((T // S, "closed"), (T // S + 900, "closed"), (T // S + 1800, "provisional"))
    assert stop.waited == [5.0, 5.0]


def test_the_loop_outlives_a_failed_check_and_an_outage_but_not_for_ever(store: Store) -> None:
    arrive(store, 0, T + 10 * S, T)
    fill(store, [], [HELD], [PRICE])
    errors: list[Exception | str] = [CheckFailed("an atom is missing"), StoreDown("away"), "SELECT throwIf(1, 'odd data')"]

    def assemble(store: Store, scope: Scope) -> None:
        error = errors.pop(0) if errors else None
        if isinstance(error, Exception):
            raise error
        if error:
            store.command(error)

    class Later(Clock):
        def __call__(self) -> int:
            self.now_ns += 301 * S
            return self.now_ns

    stop = Stop(4)
    Attributor(store, SETTINGS, "c", Later(T + 2 * Q), assemble=assemble).run(stop)
    assert stop.waited == [5.0, 10.0, 5.0, 30.0] and not errors
    assert store.query("SELECT countIf(error LIKE '%odd data%') FROM runs WHERE state = 'failed'").scalar()
    assert store.query("SELECT count() > 0 FROM current_runs").scalar()

    def away(store: Store, scope: Scope) -> None:
        raise StoreDown("away for good")

    stop = Stop(100)
    with pytest.raises(StoreDown):
        Attributor(store, SETTINGS, "c", Later(T + 50 * Q), assemble=away).run(stop)
    assert len(stop.waited) == FAILURES_MAX - 1 and max(stop.waited) == 60.0
