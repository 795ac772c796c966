"""Money of GPU time: the SQL against the slow oracle, to the atom, and its promises one by one."""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.attribution.money import Chunk, allocate, check_conservation, plan
from pipeline.errors import CheckFailed
from pipeline.store.client import Store
from tests.conftest import empty
from tests.oracle import money as oracle
from tests.oracle.money import Attempt, Constants, Held, Price
from tests.sql.gpu_facts import FOREVER, HELD, LLAMA, PRICE, REPLICAS, WINDOW, WINDOWS, S, T, fill, scope, served


def pools(store: Store) -> dict[tuple[int, str, str, bool], tuple[int, ...]]:
    sql = "SELECT toUnixTimestamp(window_from), resource, price_id, priced, capacity_ns, busy_ns, atoms, busy_atoms FROM work_pools"
    return {(w * S, r, p, bool(k)): tuple(rest) for w, r, p, k, *rest in store.query(sql).rows}


def ledger(store: Store) -> dict[tuple[int, str, str, str, str], list[int]]:
    sql = "SELECT toUnixTimestamp(window_from), resource, attempt_id, toString(class), toString(tier), busy_ns, atoms FROM work_ledger"
    found = {(w * S, *key): [ns, atoms] for w, *key, ns, atoms in store.query(sql).rows}
    assert len(found) == store.query("SELECT count() FROM work_ledger").scalar()
    return found


def book(store: Store, attempts: Sequence[Attempt], inventory: Sequence[Held], prices: Sequence[Price], **how: Any) -> oracle.Books:
    """Runs the SQL and the oracle on the same facts and asserts that they say the same. Returns the oracle's books."""
    slot_ns = how.pop("slot_ns", S)
    fill(store, attempts, inventory, prices)
    allocate(store, scope(slot_ns), **how)
    books = oracle.allocate(attempts, inventory, prices, (T, T + WINDOWS * WINDOW), WINDOW, slot_ns, 3600 * S)
    assert pools(store) == {k: (p.capacity_ns, p.busy_ns, p.atoms, p.busy_atoms) for k, p in books.pools.items()}
    assert ledger(store) == {k: v for k, v in books.ledger.items() if v != [0, 0] or k[2]}
    saved = store.query("SELECT toUnixTimestamp(window_from), cached_tokens, atoms FROM work_savings").rows
    assert {w * S: [n, atoms] for w, n, atoms in saved} == books.savings
    return books


moments = st.integers(-20 * S, (WINDOWS * 60 + 20) * S) | st.integers(-2, WINDOWS * 60 + 2).map(lambda s: s * S)
lengths = st.integers(0, 90 * S) | st.integers(0, 20).map(lambda s: s * S) | st.just(0)
tokens = st.none() | st.integers(0, 6000) | st.just(2**40)
hits = st.sampled_from([None, None, 0, 3, 2000, 2**40])


@st.composite
def attempts_of(draw: st.DrawFn, replicas: Sequence[str]) -> list[Attempt]:
    found = []
    for n in range(draw(st.integers(0, 14))):
        start = T + draw(moments)
        waited, prefill, decode = draw(lengths), draw(lengths), draw(lengths)
        scheduled, first, last = start + waited, start + waited + prefill, start + waited + prefill + decode
        legs: tuple[tuple[str, str, int, int], ...] = ()
        if draw(st.integers(0, 3)) == 0:
            cut = draw(st.sampled_from([first, scheduled, last]))
            kinds = draw(st.sampled_from([("prefill", "decode"), ("", ""), ("decode", "decode")]))
            legs = (
                (draw(st.sampled_from(replicas)), kinds[0], scheduled, cut),
                (draw(st.sampled_from(replicas)), kinds[1], draw(st.sampled_from([cut, scheduled])), last),
            )
        found.append(
            Attempt(
                attempt_id=f"a{n}",
                replica=draw(st.sampled_from([*replicas, ""])),
                started_ns=start,
                ended_ns=draw(st.sampled_from([None, last, last + 5])),
                first_scheduled_ns=draw(st.sampled_from([scheduled, scheduled, scheduled, None])),
                first_token_ns=draw(st.sampled_from([first, first, first, None])),
                last_token_ns=draw(st.sampled_from([last, last, last, None])),
                legs=legs,
                input_tokens=draw(tokens),
                cached_tokens=draw(tokens),
                output_tokens=draw(tokens),
                recompute_tokens=draw(st.sampled_from([None, None, 0, 1, 700])),
                rejected_draft_tokens=draw(st.sampled_from([None, None, 0, 3, 999])),
                expected_hit_tokens=draw(hits),
                best_hit_tokens=draw(hits),
                delivered_tokens=draw(hits),
                outcome=draw(st.sampled_from(["useful", "late", "aborted", "failed", "superseded", "blocked", "unmetered"])),
            )
        )
    return found


@st.composite
def machines(draw: st.DrawFn) -> tuple[list[Held], list[Price]]:
    edges = sorted({T + draw(moments) for _ in range(draw(st.integers(0, 2)))})
    prices, begin = [], 0
    for n, edge in enumerate([*edges, FOREVER]):
        if draw(st.integers(0, 5)):
            prices.append(Price(f"p{n}", "h100", draw(st.sampled_from([0, 1, 2_490_000_000_000, 7_123_456_789_013])), begin, edge))
        begin = edge
    held = []
    for replica in REPLICAS:
        begin = T - draw(st.sampled_from([86_400 * S, 86_400 * S + 7]))
        for edge in [*sorted({T + draw(moments) for _ in range(draw(st.integers(0, 2)))}), FOREVER]:
            if draw(st.integers(0, 4)):
                constants = draw(st.sampled_from([LLAMA, None, Constants(10**15, 10**12, 512, 10**9, 10**6, 16)]))
                held.append(Held(replica, "h100", draw(st.sampled_from([1, 8])), begin, edge, constants))
            begin = edge
    return held, prices


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(attempts=attempts_of([*REPLICAS, "unlisted"]), machine=machines(), slot_ns=st.sampled_from([S, 60 * S, 750_000_000, 5 * S]))
def test_sql_and_oracle_agree_to_the_atom_whatever_happens(
    store: Store, attempts: list[Attempt], machine: tuple[list[Held], list[Price]], slot_ns: int
) -> None:
    empty(store)
    books = book(store, attempts, *machine, slot_ns=slot_ns)
    spent: dict[tuple[int, str], int] = defaultdict(int)
    for (window, replica, *_), (_, atoms) in books.ledger.items():
        spent[window, replica] += atoms
    cost: dict[tuple[int, str], int] = defaultdict(int)
    for (window, replica, *_), pool in books.pools.items():
        cost[window, replica] += pool.atoms
    assert {k: v for k, v in spent.items() if v} == {k: v for k, v in cost.items() if v}


def test_money_of_a_window_is_the_sum_of_its_slots_across_price_changes_and_inventory_edges(store: Store) -> None:
    edge, change = T + 20 * S + 333_333_333, T + 90 * S + 7
    held = [Held("r0", "h100", 3, edge, T + 150 * S + 1, LLAMA)]
    prices = [Price("old", "h100", 2_490_000_000_001, 0, change), Price("new", "h100", 3_100_000_000_007, change, FOREVER)]
    book(store, [served("a", "r0", 0, 2 * S, 170 * S, 500, 90)], held, prices)
    total = sum(atoms for *_, atoms, _ in pools(store).values())
    exact = Fraction(2_490_000_000_001 * 3 * (change - edge) + 3_100_000_000_007 * 3 * (T + 150 * S + 1 - change), oracle.HOUR_NS)
    assert exact - 2 < total <= exact
    assert {key[2] for key in pools(store)} == {"old", "new", ""}


def test_a_replica_without_a_span_costs_its_idle_time(store: Store) -> None:
    book(store, [], [HELD], [PRICE])
    minute_atoms = 8 * 2_490_000_000_000 // 60
    assert list(ledger(store).values()) == [[0, minute_atoms]] * WINDOWS
    rows = store.query("SELECT DISTINCT toString(class), toString(stage), toString(payer), tenant, attempt_id FROM work_ledger").rows
    assert rows == (("idle", "schedule", "platform", "", ""),)


def test_an_unlisted_replica_counts_time_and_no_money(store: Store) -> None:
    book(store, [served("a", "nowhere", 10 * S, 11 * S, 30 * S, 100, 100)], [HELD], [PRICE])
    assert pools(store)[T, "nowhere", "", False] == (20 * S, 20 * S, 0, 0)
    assert ledger(store)[T, "nowhere", "a", "useful", "C"] == [20 * S, 0]


def test_a_replica_without_a_price_counts_capacity_and_no_money(store: Store) -> None:
    book(store, [served("a", "r0", 10 * S, 11 * S, 30 * S, 100, 100)], [HELD], [])
    assert pools(store)[T, "r0", "", False] == (60 * S, 20 * S, 0, 0)


def test_queue_time_and_attempts_that_never_ran_cost_nothing(store: Store) -> None:
    queued = Attempt("q", "r0", T, ended_ns=T + 30 * S, outcome="failed", input_tokens=100)
    waited = Attempt("w", "r0", T, T + 40 * S, T + 35 * S, T + 36 * S, T + 40 * S, input_tokens=10, output_tokens=5)
    book(store, [queued, waited], [HELD], [PRICE])
    assert {key[2] for key in ledger(store)} == {"w", ""}
    assert pools(store)[T, "r0", "p", True][1] == 5 * S


def test_an_attempt_that_failed_before_its_first_token_pays_for_its_prefill(store: Store) -> None:
    book(store, [Attempt("f", "r0", T, T + 4 * S, T + 1 * S, outcome="failed", input_tokens=9000)], [HELD], [PRICE])
    assert ledger(store)[T, "r0", "f", "failed", "B"][0] == 3 * S
    assert store.query("SELECT DISTINCT toString(payer) FROM work_ledger WHERE class = 'failed'").rows == (("platform",),)


def test_one_attempt_without_phase_times_puts_only_its_slots_on_tier_c(store: Store) -> None:
    known = served("a", "r0", 0, 2 * S, 30 * S, 1000, 200)
    unknown = Attempt("b", "r0", T + 20 * S, T + 40 * S, last_token_ns=T + 40 * S, input_tokens=500, output_tokens=100)
    book(store, [known, unknown], [HELD], [PRICE])
    found = ledger(store)
    assert found[T, "r0", "a", "useful", "B"][0] == 20 * S
    assert 0 < found[T, "r0", "a", "useful", "C"][0] < 10 * S
    assert (T, "r0", "b", "useful", "B") not in found


def test_prefill_and_decode_workers_share_one_attempt(store: Store) -> None:
    legs = (("r0", "prefill", T + S, T + 3 * S), ("r1", "decode", T + 4 * S, T + 20 * S))
    attempt = Attempt("pd", "r1", T, T + 20 * S, T + S, T + 3 * S, T + 20 * S, legs, input_tokens=4000, output_tokens=160)
    book(store, [attempt], [HELD, Held("r1", "h100", 8, T - S, FOREVER, LLAMA)], [PRICE])
    assert ledger(store)[T, "r0", "pd", "useful", "B"][0] == 2 * S
    assert ledger(store)[T, "r1", "pd", "useful", "B"][0] == 16 * S


def classed(store: Store, attempt: Attempt) -> dict[str, tuple[int, str, str]]:
    """Atoms, stage and payer of each class of one attempt alone."""
    book(store, [attempt], [HELD], [PRICE])
    sql = "SELECT toString(class), (atoms, toString(stage), toString(payer)) FROM work_ledger WHERE attempt_id = {attempt:String}"
    found: dict[str, tuple[int, str, str]] = dict(store.query(sql, {"attempt": attempt.attempt_id}).rows)
    return found


def test_what_was_wasted_inside_an_attempt_takes_its_part_by_what_it_adds_to_the_weight(store: Store) -> None:
    """Weight of 600 uncached in, 100 out: 0.21 x 600 + 0.1008 x 100 + 0.00399 x 60,000 + 0.00325 x 10,000 + 1.146 = 409.126."""
    found = classed(store, served("a", "r0", 0, S, 10 * S, 600, 100, recompute_tokens=200, rejected_draft_tokens=100))
    whole = sum(atoms for atoms, _, _ in found.values())
    for name, weight in (("recompute", "42"), ("rejected_draft", "21"), ("useful", "409.126")):
        assert abs(found[name][0] - whole * Fraction(weight) / Fraction("472.126")) < 1
    assert {name: row[1:] for name, row in found.items()} == {
        "recompute": ("kv_cache", "platform"), "rejected_draft": ("other", "platform"), "useful": ("other", "tenant"),
    }  # fmt: skip


def test_a_prefix_that_another_replica_had_is_the_routers_miss_and_one_that_was_gone_its_stale_index(store: Store) -> None:
    """1000 prompt tokens, 300 of them cached: the router expected 500 here and knew of 900 elsewhere."""
    routed = served("a", "r0", 0, S, 10 * S, 1000, 1, cached_tokens=300, expected_hit_tokens=500, best_hit_tokens=900)
    found = classed(store, routed)
    whole = sum(atoms for atoms, _, _ in found.values())
    weight = Fraction("0.21") * 700 + Fraction("0.1008") + Fraction("0.00399") * 700 + Fraction("0.00325") + Fraction("1.146")
    assert abs(found["affinity_miss"][0] - whole * 400 * Fraction("0.21") / weight) < 1
    assert abs(found["stale_index"][0] - whole * 200 * Fraction("0.21") / weight) < 1
    assert found["affinity_miss"][1:] == found["stale_index"][1:] == ("route", "platform")


@pytest.mark.parametrize(
    ("expected", "best", "cached", "classes"),
    [
        (None, 900, 300, {"useful"}),  # nobody knows what the chosen one should have had
        (500, None, 500, {"useful"}),
        (500, 900, None, {"useful", "affinity_miss"}),  # the engine does not tell what it found
        (900, 500, 900, {"useful"}),  # the chosen one was the best
        (2000, 5000, 0, {"useful", "affinity_miss"}),  # no more than was prefilled, and each token once
    ],
)
def test_misses_are_priced_only_where_they_are_told(
    store: Store, expected: int | None, best: int | None, cached: int | None, classes: set[str]
) -> None:
    routed = served("a", "r0", 0, S, 10 * S, 1000, 1, cached_tokens=cached, expected_hit_tokens=expected, best_hit_tokens=best)
    assert set(classed(store, routed)) == classes


def test_what_the_engine_made_after_the_client_had_left_is_overgenerated_and_the_tenants(store: Store) -> None:
    found = classed(store, served("a", "r0", 0, S, 10 * S, 0, 100, outcome="aborted", delivered_tokens=60))
    whole = sum(atoms for atoms, _, _ in found.values())
    last_forty = Fraction("0.1008") * 40 + Fraction("0.00325") * (100**2 - 60**2)
    assert abs(found["overgenerated"][0] - whole * last_forty / (Fraction("0.1008") * 100 + Fraction("32.5") + Fraction("1.146"))) < 1
    assert (found["overgenerated"][1:], found["aborted"][1:]) == (("other", "tenant"), ("decode", "tenant"))


def test_an_attempt_that_was_not_answered_leaks_at_the_stage_in_which_it_ended(store: Store) -> None:
    during_prefill = Attempt("p", "r0", T, T + 5 * S, T, outcome="failed", input_tokens=100)
    handed_over = Attempt(
        "h", "r0", T, T + 9 * S, T, T + 2 * S, T + 9 * S, (("r0", "prefill", T, T + 2 * S), ("r0", "decode", T + 2 * S, T + 9 * S)),
        100, None, 50, outcome="superseded",
    )  # fmt: skip
    together = Attempt(
        "o", "r0", T, T + 2 * S, T, T + S, T + 2 * S, (("r0", "decode", T, T + 2 * S), ("r0", "prefill", T, T + 2 * S)), 100, None, 1,
        outcome="aborted",
    )  # fmt: skip
    book(store, [during_prefill, handed_over, together], [HELD], [PRICE])
    found = store.query("SELECT attempt_id, toString(class), toString(stage) FROM work_ledger WHERE attempt_id != '' ORDER BY ALL").rows
    assert found == (("h", "superseded", "decode"), ("o", "aborted", "decode"), ("p", "failed", "prefill"))


def test_a_late_attempt_leaks_at_the_stage_that_its_request_is_blamed_on(store: Store) -> None:
    blamed = {"run_id": 7, "window_from": T // S, "request_id": "request of a", "cause": "slo", "measure": "ttft", "stage": "schedule"}
    store.insert_rows("work_blames", [blamed, {**blamed, "cause": "tail", "stage": "decode"}])
    late = [served(name, "r0", 0, S, 10 * S, 100, 10, outcome="late") for name in ("a", "b")]
    book(store, late, [HELD], [PRICE])
    stages = dict(store.query("SELECT attempt_id, toString(stage) FROM work_ledger WHERE class = 'late'").rows)
    assert stages == {"a": "schedule", "b": "other"}


def test_cached_tokens_are_not_prefilled_and_are_valued_at_the_compute_price(store: Store) -> None:
    one = served("one", "r0", 0, S, 3 * S, 4000, 1)
    hit = served("hit", "r0", 0, S, 3 * S, 4000, 1, cached_tokens=3500)
    book(store, [one, hit], [HELD], [PRICE])
    found = ledger(store)
    assert found[T, "r0", "hit", "useful", "B"][1] < found[T, "r0", "one", "useful", "B"][1]
    expected = 3500 * LLAMA.flop_per_token * 8 * 2_490_000_000_000 // (LLAMA.flops_per_second * 3600)
    assert store.query("SELECT tenant, model, cached_tokens, atoms FROM work_savings").rows == (("t", "m", 3500, expected),)


def test_integer_rounding_stays_close_to_the_exact_fractions(store: Store) -> None:
    attempts = [served(f"a{n}", "r0", n * S, (n + 2) * S, (n + 30 + n % 7) * S, 300 * n, 40 * n) for n in range(1, 60)]
    books = book(store, attempts, [HELD], [PRICE])
    got: dict[tuple[int, str, str], int] = defaultdict(int)
    for (window, replica, attempt_id, *_), (_, atoms) in ledger(store).items():
        got[window, replica, attempt_id] += atoms
    for key, exact in books.exact.items():
        assert abs(got[key] - exact) <= exact / 10**4 + WINDOW // S


def test_decode_that_is_bound_by_compute_pays_for_its_compute(store: Store) -> None:
    small = Constants(10**15, 10**12, 512, 10**9, 10**6, 16)  # reading the weights takes as long as computing one token
    attempts = [served(f"a{n}", "r0", n * S, (n + 1) * S, 20 * S, 300 * n, 100 * n) for n in range(1, 8)]
    book(store, attempts, [Held("r0", "h100", 8, 0, FOREVER, small)], [PRICE])
    assert store.query("SELECT DISTINCT toString(tier) FROM work_ledger WHERE attempt_id != ''").rows == (("B",),)


def test_absurd_token_counts_neither_stop_the_run_nor_lose_money(store: Store) -> None:
    absurd = served("x", "r0", 0, S, 2 * S, 2**62, 2**62)
    book(store, [absurd, served("a", "r0", 0, S, 10 * S, 500, 100)], [HELD], [PRICE])
    assert (T, "r0", "x", "useful", "C") in ledger(store)


def test_absurd_constants_stop_the_run_and_name_the_cause(store: Store) -> None:
    slow = Constants(10**6, 10**6, 1, 2**50, 2**50, 2**32)
    fill(store, [served(f"a{n}", "r0", 0, S, 3 * S, 2**40, 2**40) for n in range(99)], [Held("r0", "h100", 8, T, FOREVER, slow)], [PRICE])
    with pytest.raises(DatabaseError, match="check flops_per_second"):
        allocate(store, scope())
    empty(store)
    fill(store, [], [Held("r0", "h100", 8, T, FOREVER, Constants(10**15, 10**12, 1, 10**12, 10**12, 2**33))], [PRICE])
    with pytest.raises(DatabaseError, match="constants of a model"):
        allocate(store, scope())


def test_a_price_that_would_overflow_stops_the_run_and_says_where_to_look(store: Store) -> None:
    fill(store, [], [HELD], [Price("dear", "h100", 10**30, 0, FOREVER)])
    with pytest.raises(DatabaseError, match="check usd_per_gpu_hour"):
        allocate(store, scope())


def test_a_slot_in_which_nobody_has_weight_is_unattributed(store: Store) -> None:
    long = Attempt("a", "r0", T - 2000 * S, T + 1000 * S, last_token_ns=T + 1000 * S)
    book(store, [long], [Held("r0", "h100", 8, T - S, T + 5, None)], [Price("dear", "h100", 10**20, 0, FOREVER)])
    assert ledger(store)[T, "r0", "", "unattributed", "none"][0] == 5


def test_open_windows_cost_what_has_passed_of_them(store: Store) -> None:
    fill(store, [served("a", "r0", 0, S, 50 * S, 500, 100)], [HELD], [PRICE])
    allocate(store, scope(), until_ns=T + 30 * S + 999)
    assert pools(store) == {(T, "r0", "p", True): (30 * S, 30 * S, 166_000_000_000, 166_000_000_000)}


def test_chunks_do_not_change_a_single_atom(store: Store) -> None:
    held = [Held(f"r{n}", "h100", 8, 0, FOREVER, LLAMA) for n in range(3)]
    attempts = [served(f"a{n}", f"r{n % 2}", n * S, (n + 2) * S, (n + 100) * S, 300 * n, 40 * n) for n in range(1, 40)]
    book(store, attempts, held, [PRICE], attempts_per_chunk_max=30)
    assert len(plan([("r0", T, 20), ("r0", T + WINDOW, 20), ("r1", T, 10)], scope(), 30)) == 3


def test_chunks_keep_to_the_limit_and_cover_everything() -> None:
    counts = [("a", T, 10), ("b", T, 15), ("c", T, 6), ("d", T, 40), ("d", T + WINDOW, 30)]
    chunks = plan(counts, scope(), 30)
    end = T + WINDOWS * WINDOW
    assert chunks == [
        Chunk(("d",), T, T + WINDOW),
        Chunk(("d",), T + WINDOW, T + 2 * WINDOW),
        Chunk(("a", "b"), T, end),
        Chunk(("c",), T, end),
    ] or chunks == [
        Chunk(("a", "b"), T, end),
        Chunk(("d",), T, T + WINDOW),
        Chunk(("d",), T + WINDOW, T + 2 * WINDOW),
        Chunk(("c",), T, end),
    ]
    assert plan([], scope(), 30) == []


def test_a_lost_atom_is_found(store: Store) -> None:
    book(store, [served("a", "r0", 0, S, 10 * S, 500, 100)], [HELD], [PRICE])
    store.command("INSERT INTO work_ledger SELECT * REPLACE (1 AS atoms, 0 AS busy_ns) FROM work_ledger WHERE attempt_id = 'a'")
    with pytest.raises(CheckFailed, match="resource 'r0'"):
        check_conservation(store)


def test_running_twice_gives_equal_rows(store: Store) -> None:
    fill(store, [served("a", "r0", 0, S, 10 * S, 500, 100), served("b", "r0", 0, 2 * S, 9 * S, 50, 10)], [HELD], [PRICE])
    allocate(store, scope())
    first = store.query("SELECT * FROM work_ledger ORDER BY ALL").rows
    allocate(store, scope())
    assert store.query("SELECT * FROM work_ledger ORDER BY ALL").rows == first
