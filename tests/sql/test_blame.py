"""Blame: the SQL against the slow oracle, and cases small enough to follow by hand."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipeline.attribution.blame import blame
from pipeline.store.client import Store
from tests.conftest import empty
from tests.oracle import blame as oracle
from tests.oracle.blame import INNERMOST_LAST, Request
from tests.sql import rows

MS = 1_000_000
DAY_WINDOWS = 86_400 // rows.WINDOW_S
WINDOWS = 2


def stored(request: Request, run_id: int = rows.RUN) -> dict[str, Any]:
    return {
        "window_from": rows.text(rows.window(request.window)),
        "run_id": run_id,
        "request_id": request.request_id,
        "tenant": request.tenant,
        **{f"{measure}_ns": ns for measure, ns in (request.values or {}).items()},
        "model": request.model,
        "outcome": request.outcome,
        "missed_slo": request.missed,
        "stage_ns": dict(request.own_ns),
        "stage_ttft_ns": dict(request.early_ns or {}),
        "input_uncached_tokens": request.input_tokens,
        "output_tokens": request.output_tokens,
    }


def publish(store: Store, requests: Sequence[Request], run_id: int = rows.RUN - 1, kind: str = "closed") -> None:
    """As earlier runs left them."""
    store.insert_rows("requests", [stored(request, run_id) for request in requests])
    store.insert_rows(
        "runs",
        [
            {
                "run_id": run_id, "window_from": rows.text(rows.window(window)), "window_to": rows.text(rows.window(window + 1)),
                "state": "published", "kind": kind, "recorded_at": "2026-11-30 09:00:00",
            }
            for window in {request.window for request in requests}
        ],
    )  # fmt: skip


def judge(store: Store, requests: Sequence[Request], day: Sequence[Request] = ()) -> dict[str, oracle.Blame]:
    """Runs the SQL, asserts that the oracle says the same, and returns the blames by request."""
    store.insert_rows("work_requests", [stored(request) for request in requests])
    blame(store, rows.scope(WINDOWS))
    sql = "SELECT toUnixTimestamp(window_from), toString(model), toString(part), toString(stage), n, ps_per_unit FROM work_baselines"
    typical: dict[int, dict[oracle.Key, tuple[int, int]]] = defaultdict(dict)
    for at, model, part, stage, n, ps in store.query(sql).rows:
        typical[(at - int(rows.FIRST.timestamp())) // rows.WINDOW_S][model, part, stage] = (n, ps)
    run = [request for request in requests if 0 <= request.window < WINDOWS]
    assert typical == {window: found for window, found in oracle.baselines(run, day).items() if found}
    sql = "SELECT (request_id, toString(cause), toString(measure)), stage, excess_ns, excesses, compared FROM work_blames"
    found = {key: oracle.Blame(*blamed) for key, *blamed in store.query(sql).rows}
    by_id = {r.request_id: r for r in requests}
    suspects = [(r.request_id, "slo", r.missed) for r in run if r.missed != "none"]
    suspects += [(name, "tail", measure) for name, measure in oracle.tail(run)]
    assert found == {
        (name, cause, measure): oracle.blame(by_id[name], measure, typical.get(by_id[name].window, {})) for name, cause, measure in suspects
    }
    return {name: blamed for (name, cause, _), blamed in found.items() if cause == "slo"}


def usual_ones(n: int = 31, **columns: Any) -> list[Request]:
    """Useful requests whose every stage takes one ms more from request to request: the middle one is the median."""
    shape = {"schedule": 10 * MS, "prefill": 100 * MS, "decode": 500 * MS, "other": 0}
    early = {"schedule": 10 * MS, "prefill": 100 * MS, "decode": 0, "other": 0}
    made = [Request(f"u{k:03}", own_ns=shape, early_ns=early, input_tokens=1000, output_tokens=100) for k in range(n)]
    return [
        replace(
            r,
            own_ns={**shape, "schedule": (10 + k) * MS},
            early_ns={**early, "schedule": (10 + k) * MS},
            **columns,
        )
        for k, r in enumerate(made)
    ]


LATE = Request(
    "late",
    outcome="late",
    missed="ttft",
    own_ns={"schedule": 300 * MS, "prefill": 450 * MS, "decode": 5000 * MS, "other": 20 * MS},
    early_ns={"schedule": 300 * MS, "prefill": 450 * MS, "decode": 0, "other": 20 * MS},
    input_tokens=4000,
    output_tokens=200,
)


def test_the_stage_with_the_largest_excess_before_the_first_token_is_blamed_when_that_came_late(store: Store) -> None:
    """Usual: schedule 25 ms a request, prefill 100 us an input token. Late: schedule 300 - 25 ms, prefill 450 - 400 ms."""
    found = judge(store, [*usual_ones(), LATE])["late"]
    assert (found.stage, found.excess_ns) == ("schedule", 275 * MS)
    assert found.excesses == {"schedule": 275 * MS, "prefill": 50 * MS, "other": 20 * MS}


def test_only_the_part_of_the_time_line_that_the_objective_measures_counts(store: Store) -> None:
    late = {missed: replace(LATE, request_id=missed, missed=missed) for missed in ("ttft", "tpot", "e2e")}
    found = judge(store, [*usual_ones(), *late.values()])
    assert {name: (b.stage, b.excess_ns) for name, b in found.items()} == {
        "ttft": ("schedule", 275 * MS),
        "tpot": ("decode", 4000 * MS),  # 5000 ms for 200 tokens at 5 ms
        "e2e": ("decode", 4000 * MS),
    }


def test_a_long_answer_is_no_slow_decode(store: Store) -> None:
    long = replace(LATE, missed="e2e", own_ns={**LATE.own_ns, "decode": 5000 * MS}, output_tokens=1000)
    assert judge(store, [*usual_ones(), long])["late"].stage == "schedule"


def test_an_absent_stage_is_never_blamed_and_takes_no_part(store: Store) -> None:
    with_cache = [replace(r, own_ns={**r.own_ns, "kv_cache": 5}, early_ns={**(r.early_ns or {}), "kv_cache": 5}) for r in usual_ones(29)]
    late = replace(LATE, own_ns={"decode": 10**12}, early_ns={"decode": 0}, missed="tpot", output_tokens=2)
    found = judge(store, [*with_cache, *usual_ones(2, request_id="x"), late])["late"]
    assert (found.stage, found.compared) == ("decode", 1)
    assert store.query("SELECT count() FROM work_baselines WHERE stage = 'kv_cache'").scalar() == 0


def test_thirty_requests_are_enough_and_twenty_nine_are_not(store: Store) -> None:
    assert judge(store, [*usual_ones(29), LATE])["late"] == oracle.Blame("other", 0, {}, 0)
    empty(store)
    assert judge(store, [*usual_ones(30), LATE])["late"].stage == "schedule"


def test_where_the_run_shows_too_few_the_day_before_helps(store: Store) -> None:
    earlier = [replace(r, request_id=f"d{n}", window=-1 - n % DAY_WINDOWS) for n, r in enumerate(usual_ones(20))]
    too_old = [replace(r, request_id=f"o{n}", window=-DAY_WINDOWS - 1) for n, r in enumerate(usual_ones(40))]
    publish(store, earlier)
    publish(store, too_old, rows.RUN - 2)
    publish(store, [replace(r, request_id=f"p{n}", window=-40) for n, r in enumerate(usual_ones(40))], rows.RUN - 3, "provisional")
    found = judge(store, [*usual_ones(10), LATE], earlier)["late"]
    assert found.stage == "schedule"
    assert set(store.query("SELECT DISTINCT toString(source), n FROM work_baselines").rows) == {("day", 30)}


def test_a_window_is_judged_alike_with_whichever_others_it_is_run(store: Store) -> None:
    """Twenty useful requests in each of two windows: the first's are too few, also beside the second's; both together help the second."""
    both = [replace(r, request_id=f"{window}-{n}", window=window) for window in (0, 1) for n, r in enumerate(usual_ones(20))]
    late = [replace(LATE, request_id=f"late-{window}", window=window) for window in (0, 1)]
    together = judge(store, [*both, *late])
    assert (together["late-0"].compared, together["late-1"].stage) == (0, "schedule")
    empty(store)
    publish(store, [r for r in both if r.window == 0])
    store.insert_rows("work_requests", [stored(r) for r in (*both, *late) if r.window == 1])
    blame(store, replace(rows.scope(WINDOWS), from_ns=rows.ns(rows.window(1))))
    assert store.query("SELECT request_id, stage, excess_ns FROM work_blames WHERE cause = 'slo'").rows == (
        ("late-1", "schedule", together["late-1"].excess_ns),
    )


def test_of_equal_excesses_the_innermost_stage_is_blamed_whatever_the_order(store: Store) -> None:
    stages = [name for name in INNERMOST_LAST if name != "other"]
    own = dict.fromkeys(stages, 5)
    usual = [Request(f"u{n}", own_ns=own, early_ns=own, input_tokens=1, output_tokens=1) for n in range(30)]
    late = []
    for place in range(1, len(stages) + 1):
        slow = dict.fromkeys(stages[:place], 8)
        late.append(Request(stages[place - 1], outcome="late", missed="ttft", own_ns=slow, early_ns=slow, input_tokens=1))
        back = dict(reversed(slow.items()))
        late.append(Request(f"{stages[place - 1]}/", outcome="late", missed="ttft", own_ns=back, early_ns=back, input_tokens=1))
    found = judge(store, [*usual, *late])
    assert {name: b.stage for name, b in found.items()} == {r.request_id: r.request_id.rstrip("/") for r in late}


def test_without_tokens_what_goes_by_them_is_not_compared(store: Store) -> None:
    found = judge(store, [*usual_ones(), replace(LATE, missed="e2e", input_tokens=None, output_tokens=None)])["late"]
    # decode has no tokens after the first one, but before it goes by request; prefill the other way round
    assert found.excesses == {"schedule": 275 * MS, "other": 20 * MS}


def test_without_a_first_token_the_whole_request_is_compared_with_its_like(store: Store) -> None:
    whole = [Request(f"w{n}", own_ns={"prefill": 100, "other": 7}, input_tokens=10) for n in range(30)]
    late = Request("late", outcome="late", missed="ttft", own_ns={"prefill": 900, "other": 7}, input_tokens=20)
    found = judge(store, [*usual_ones(), *whole, late])["late"]
    assert (found.stage, found.excess_ns) == ("prefill", 700)


def test_an_empty_run_has_no_blame(store: Store) -> None:
    assert judge(store, []) == {}


def test_a_request_of_a_window_before_keeps_what_its_own_run_said(store: Store) -> None:
    """Its money may lie in this run's windows, whose ledger names the stage."""
    neighbour = replace(LATE, window=-1)
    publish(store, [neighbour])
    said = {"window_from": rows.text(rows.window(-1)), "run_id": rows.RUN - 1, "request_id": "late", "cause": "slo", "measure": "ttft"}
    store.insert_rows("blames", [{**said, "stage": "nic", "excess_ns": 7}, {**said, "run_id": rows.RUN - 5, "stage": "auth"}])
    store.insert_rows("work_requests", [stored(request) for request in (*usual_ones(), neighbour)])
    blame(store, rows.scope(WINDOWS))
    assert store.query("SELECT request_id, stage, excess_ns FROM work_blames WHERE cause = 'slo'").rows == (("late", "nic", 7),)


def test_the_tail_is_the_first_hundredth_by_value_and_id_late_or_not(store: Store) -> None:
    """201 requests, of which 30 took longest together: three of them, the first by id, make the tail."""
    shape = usual_ones(1)[0]
    many = [replace(shape, request_id=f"t{n:03}", values={"e2e": 7 if n >= 171 else 6, "ttft": n}) for n in range(201)]
    slow = {"decode": 900 * MS, "schedule": 10 * MS, "prefill": 100 * MS, "other": 0}
    many[172] = replace(many[172], own_ns=slow)
    judge(store, many)
    rows_of = "SELECT request_id, toString(measure), stage FROM work_blames WHERE cause = 'tail' ORDER BY request_id, measure"
    assert store.query(rows_of).rows == (
        ("t171", "e2e", "other"), ("t172", "e2e", "decode"), ("t173", "e2e", "other"),
        ("t198", "ttft", "other"), ("t199", "ttft", "other"), ("t200", "ttft", "other"),
    )  # fmt: skip


def test_rejected_requests_and_those_of_other_windows_are_in_no_tail(store: Store) -> None:
    far = replace(usual_ones(1)[0], values={"e2e": 5, "tpot": 0})
    judge(store, [far, replace(far, request_id="r", outcome="rejected"), replace(far, request_id="before", window=-1)])
    assert store.query("SELECT request_id, toString(measure) FROM work_blames ORDER BY ALL").rows == (("u000", "e2e"), ("u000", "tpot"))


durations = st.integers(0, 9) | st.integers(0, 10**13) | st.just(2**62)
counts = st.none() | st.integers(0, 3) | st.integers(0, 2**40)


@st.composite
def requests_of(draw: st.DrawFn, name: str) -> Request:
    stages = draw(st.lists(st.sampled_from(INNERMOST_LAST), unique=True, max_size=5))
    own = {stage: draw(durations) for stage in stages}
    early = {stage: draw(st.sampled_from([0, ns, ns // 3])) for stage, ns in own.items()}
    missed = draw(st.sampled_from(["none", "ttft", "tpot", "e2e"]))
    return Request(
        name,
        window=draw(st.integers(0, WINDOWS - 1)),
        model=draw(st.sampled_from(["m", "n"])),
        outcome="useful" if missed == "none" else "late",
        missed=missed,
        own_ns=own,
        early_ns=draw(st.sampled_from([early, early, None])),
        input_tokens=draw(counts),
        output_tokens=draw(counts),
        tenant=draw(st.sampled_from(["acme", "bolt"])),
        values=draw(st.dictionaries(st.sampled_from(["ttft", "tpot", "e2e"]), st.integers(0, 3))),
    )


@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_sql_and_oracle_agree_and_order_changes_nothing(store: Store, data: st.DataObject, seed: int) -> None:
    shapes = [data.draw(requests_of(f"r{n}")) for n in range(data.draw(st.integers(0, 12)))]
    often = random.Random(seed)
    requests = [
        replace(shape, request_id=f"{shape.request_id}-{n}", input_tokens=often.choice([shape.input_tokens, 7, 100]))
        for shape in shapes
        for n in range(often.choice([1, 29, 30, 70]))
    ]
    day = [replace(r, request_id=f"day {r.request_id}", window=-3) for r in requests if r.missed == "none" and often.random() < 0.5]
    empty(store)
    if day:
        publish(store, day)
    found = judge(store, requests, day)
    often.shuffle(requests)
    store.command("TRUNCATE TABLE work_requests")
    assert judge(store, requests, day) == found
