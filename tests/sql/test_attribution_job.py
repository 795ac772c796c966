"""The attribution job: what readers see, whatever happens on the way."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from pipeline.attribution.job import RunResult, digest, run
from pipeline.attribution.journal import RUN_TABLES, forget_superseded
from pipeline.attribution.scope import Scope
from pipeline.errors import CheckFailed
from pipeline.store.client import Store, Table
from schemas.settings import AttributionSettings
from tests.oracle.money import Attempt, Price
from tests.sql.gpu_facts import FOREVER, HELD, PRICE, WINDOW, S, T, fill, row, served

SETTINGS = AttributionSettings(window_seconds=60, grace_seconds=10)
DAY_NS = 86_400 * S


class Clock:
    """Moves a millisecond at each look, and whither a test sets it."""

    def __init__(self, now_ns: int = T + DAY_NS) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns


class Told:
    """Stands where assembly stands: writes what it was told, for the windows asked and for their neighbours."""

    def __init__(self, *attempts: Attempt) -> None:
        self.attempts = attempts

    def __call__(self, store: Store, scope: Scope) -> None:
        store.insert_rows("work_attempts", [row(a) | {"run_id": scope.run_id} for a in self.attempts])
        store.insert_rows("work_requests", [request(a) | {"run_id": scope.run_id} for a in self.attempts])


def request(a: Attempt) -> dict[str, Any]:
    names = ("window_from", "request_id", "tenant", "model", "started_at", "ended_at", "input_tokens", "output_tokens", "outcome")
    told = row(a)
    kinds = {name: told[name] for name in ("tenant_source", "usage_source", "usage_state", "delivery")}
    return {name: told[name] for name in names} | kinds | {"attempts": 1, "stage_ns": {"prefill": 5}, "stage_quality": {"prefill": "span"}}


ONE = served("one", "r0", 10 * S, 11 * S, 70 * S, 500, 200)
TWO = served("two", "r0", 20 * S, 21 * S, 40 * S, 900, 100, cached_tokens=300)


def attribute(store: Store, told: Any, clock: Clock, minutes: tuple[int, int] = (0, 2), kind: Any = "closed", **more: Any) -> RunResult:
    return run(store, SETTINGS, "c", T + minutes[0] * WINDOW, T + minutes[1] * WINDOW, kind, clock, assemble=told, **more)


def seen(store: Store) -> dict[str, tuple[tuple[Any, ...], ...]]:
    """Everything that readers see, without run ids."""
    sql = "SELECT t.* EXCEPT run_id FROM {table:Identifier} AS t INNER JOIN current_runs AS c USING (window_from, run_id) ORDER BY ALL"
    return {table: store.query(sql, {"table": table}).rows for table in RUN_TABLES}


def rows(store: Store) -> dict[str, int]:
    return {table: store.query("SELECT count() FROM {table:Identifier}", {"table": table}).scalar() for table in RUN_TABLES}


def states(store: Store) -> list[tuple[str, str]]:
    return [(str(state), str(kind)) for state, kind in store.query("SELECT state, kind FROM runs ORDER BY recorded_at, window_from").rows]


@pytest.fixture
def machines(store: Store) -> Store:
    fill(store, [], [HELD], [PRICE])
    return store


def test_a_run_publishes_its_windows_and_nothing_of_their_neighbours(machines: Store) -> None:
    late = served("late", "r0", 130 * S, 131 * S, 140 * S, 50, 5)
    result = attribute(machines, Told(ONE, TWO, late), Clock())
    found = seen(machines)
    assert result.state == "published"
    assert [r[1] for r in found["requests"]] == ["request of one", "request of two"]
    assert {r[0].minute for r in found["pools"]} == {0, 1}
    assert result.pools_atoms == result.ledger_atoms == 2 * 8 * 2_490_000_000_000 // 60
    assert found["tenant_windows"] and found["unallocated_windows"]
    assert states(machines) == [("started", "closed")] * 2 + [("published", "closed")] * 2


def test_the_same_input_again_is_unchanged_and_adds_no_rows(machines: Store) -> None:
    clock = Clock()
    first = attribute(machines, Told(ONE, TWO), clock)
    before, kept = seen(machines), rows(machines)
    machines.insert_rows("arrivals", [arrival(0, 41)])
    second = attribute(machines, Told(TWO, ONE), clock)
    assert (second.state, second.run_id > first.run_id) == ("unchanged", True)
    assert (seen(machines), rows(machines)) == (before, kept)
    marks = machines.query("SELECT watermark FROM runs WHERE state = 'unchanged'").rows
    assert marks == (({"otlp_spans/0": 42},),) * 2


def test_changed_input_is_published_and_old_money_stays_for_as_known_on(machines: Store) -> None:
    clock = Clock()
    first = attribute(machines, Told(ONE), clock)
    second = attribute(machines, Told(ONE, TWO), clock)
    assert second.state == "published"
    assert [r[1] for r in seen(machines)["requests"]] == ["request of one", "request of two"]
    assert machines.query("SELECT DISTINCT run_id FROM ledger ORDER BY run_id").rows == ((first.run_id,), (second.run_id,))


def test_a_closed_run_takes_the_place_of_an_equal_provisional_one(machines: Store) -> None:
    clock = Clock()
    attribute(machines, Told(ONE), clock, kind="provisional")
    assert attribute(machines, Told(ONE), clock).state == "published"
    assert machines.query("SELECT DISTINCT toString(kind) FROM current_runs").rows == (("closed",),)


def test_an_open_window_costs_until_now(machines: Store) -> None:
    clock = Clock(T + 90 * S)
    result = attribute(machines, Told(ONE), clock, kind="provisional")
    assert result.pools_atoms == 90 * 8 * 2_490_000_000_000 // 3600


def test_another_price_book_is_published_even_if_the_money_is_the_same(machines: Store) -> None:
    clock = Clock()
    attribute(machines, Told(), clock)
    result = run(machines, SETTINGS, "other", T, T + 2 * WINDOW, "closed", clock, assemble=Told())
    assert result.state == "published"


def test_ids_and_times_of_recording_rise_though_the_clock_steps_back(machines: Store) -> None:
    first = attribute(machines, Told(ONE), Clock(T + DAY_NS))
    second = attribute(machines, Told(TWO), Clock(T + DAY_NS - 3600 * S))
    assert second.run_id == first.run_id + 1
    assert [r[1] for r in seen(machines)["requests"]] == ["request of two"]


def test_a_failed_check_publishes_nothing_and_says_why(machines: Store) -> None:
    clock = Clock()
    attribute(machines, Told(ONE), clock)
    before, kept = seen(machines), rows(machines)

    def broken(store: Store, scope: Scope) -> None:
        raise CheckFailed("an atom is missing")

    with pytest.raises(CheckFailed):
        attribute(machines, Told(ONE, TWO), clock, roll_up=broken)
    assert (seen(machines), rows(machines)) == (before, kept)
    assert machines.query("SELECT DISTINCT error FROM runs WHERE state = 'failed'").rows == (("an atom is missing",),)


def test_rows_that_another_job_wrote_into_the_run_are_noticed(machines: Store) -> None:
    def meddle(store: Store, scope: Scope) -> None:
        store.command(
            "INSERT INTO attempts SELECT * REPLACE (7 AS attempt_no) FROM attempts WHERE run_id = {run_id:UInt64}", scope.parameters()
        )

    with pytest.raises(CheckFailed, match="another job"):
        attribute(machines, Told(ONE), Clock(), roll_up=meddle)
    assert seen(machines)["requests"] == ()


def test_numbers_out_of_range_are_a_failed_check_that_names_the_cause(store: Store) -> None:
    fill(store, [], [HELD], [Price("dear", "h100", 10**30, 0, FOREVER)])
    with pytest.raises(CheckFailed, match="check usd_per_gpu_hour"):
        attribute(store, Told(ONE), Clock())


class Killed(BaseException):
    """The process ends here."""


class Mortal:
    """A store whose process dies at its n-th write."""

    def __init__(self, store: Store, life: int) -> None:
        self._store, self.life = store, life

    def _live(self) -> None:
        if self.life == 0:
            raise Killed
        self.life -= 1

    def command(self, sql: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None) -> None:
        self._live()
        self._store.command(sql, parameters, settings)

    def insert_rows(self, table: str, new: Any) -> None:
        self._live()
        self._store.insert_rows(table, new)

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None) -> Table:
        return self._store.query(sql, parameters, settings)


def test_a_run_that_dies_at_any_write_is_not_seen_and_the_next_one_cleans_up(machines: Store) -> None:
    clock = Clock()
    attribute(machines, Told(ONE), clock)
    before, kept = seen(machines), rows(machines)
    life, died = 0, 0
    while True:
        try:
            attribute(Mortal(machines, life), Told(ONE, TWO), clock)  # type: ignore[arg-type]
            break
        except Killed:
            died += 1
        assert seen(machines) == before, f"seen after the death at write {life}"
        life += 6 if life < 24 else 2
    assert died > 8
    after = seen(machines)
    assert [r[1] for r in after["requests"]] == ["request of one", "request of two"]
    assert attribute(machines, Told(ONE), clock).state == "published"
    assert seen(machines) == before
    published = machines.query("SELECT DISTINCT run_id FROM runs WHERE state = 'published'").rows
    for table in RUN_TABLES:
        assert {r for (r,) in machines.query("SELECT DISTINCT run_id FROM {table:Identifier}", {"table": table}).rows} <= {
            r for (r,) in published
        }
    assert rows(machines)["ledger"] > kept["ledger"]


def test_two_jobs_do_not_mix(machines: Store) -> None:
    order: list[str] = []
    inside, go_on = threading.Event(), threading.Event()

    def slow(store: Store, scope: Scope) -> None:
        order.append("first begins")
        inside.set()
        assert go_on.wait(30)
        Told(ONE)(store, scope)
        order.append("first ends")

    def second(store: Store, scope: Scope) -> None:
        order.append("second")
        Told(ONE, TWO)(store, scope)

    clock, other = Clock(), machines.another()
    threads = [threading.Thread(target=attribute, args=(machines, slow, clock))]
    threads[0].start()
    assert inside.wait(30)
    threads.append(threading.Thread(target=attribute, args=(other, second, clock)))
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(60)
    other.close()
    assert order == ["first begins", "first ends", "second"]
    assert len(seen(machines)["requests"]) == 2


@pytest.mark.parametrize("minutes", [(0, 0), (-1440 * 2, 1)])
def test_ranges_that_one_block_cannot_publish_are_refused(machines: Store, minutes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"window|month"):
        attribute(machines, Told(), Clock(), minutes)


def test_the_hash_sees_every_column_and_no_order(machines: Store) -> None:
    scope = Scope(5, "c", T, T + WINDOW, WINDOW, S, S, 3600 * S)
    hashes = set()
    for attempts in ([ONE, TWO], [TWO, ONE], [ONE], [ONE, ONE, TWO], []):
        for name in ("work_attempts", "work_requests"):
            machines.command("TRUNCATE TABLE {table:Identifier}", {"table": name})
        Told(*attempts)(machines, scope)
        hashes.add(digest(machines, scope)[T]["content_hash"])
    assert len(hashes) == 4
    Told(ONE)(machines, scope)
    before = digest(machines, scope)[T]["content_hash"]
    machines.command("CREATE TEMPORARY TABLE kept AS SELECT * REPLACE (0 AS e2e_ns) FROM work_requests")
    machines.command("TRUNCATE TABLE work_requests")
    machines.command("INSERT INTO work_requests SELECT * FROM kept")
    machines.command("DROP TEMPORARY TABLE kept")
    assert digest(machines, scope)[T]["content_hash"] != before  # null is not 0


def test_superseded_requests_go_after_a_week_and_provisional_runs_after_ten_minutes(machines: Store) -> None:
    clock = Clock()
    first = attribute(machines, Told(ONE), clock)
    second = attribute(machines, Told(ONE, TWO), clock, kind="provisional")
    third = attribute(machines, Told(TWO), clock)
    assert forget_superseded(machines, SETTINGS, clock) == 0
    clock.now_ns += 700 * S
    assert forget_superseded(machines, SETTINGS, clock) == 1
    assert second.run_id not in {r for (r,) in machines.query("SELECT run_id FROM ledger UNION ALL SELECT run_id FROM runs").rows}
    clock.now_ns += 7 * DAY_NS
    assert forget_superseded(machines, SETTINGS, clock) == 1
    assert machines.query("SELECT DISTINCT run_id FROM requests").rows == ((third.run_id,),)
    assert machines.query("SELECT DISTINCT run_id FROM ledger ORDER BY run_id").rows == ((first.run_id,), (third.run_id,))
    assert forget_superseded(machines, SETTINGS, clock) == 0


def arrival(minute: int, offset: int, received_ns: int = T) -> dict[str, Any]:
    return {
        "window_from": (T + minute * WINDOW) // (900 * S) * 900,
        "topic": "otlp_spans",
        "log_partition": 0,
        "log_offset": offset,
        "spans": 1,
        "received_ns": received_ns,
    }
