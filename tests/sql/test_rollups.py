"""Rollups against an independent recomputation in Python from the same request and ledger rows."""

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import count
from math import ceil
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipeline.attribution.rollups import roll_up
from pipeline.store.client import Store
from schemas.usage import ATTEMPT_CLASSES, SHARED_CLASSES
from tests.sql import rows

Row = dict[str, Any]
Key = tuple[str, str, str]

WINDOWS = 2
_runs = count(rows.RUN)

# No shrinking: every example is a run of its own on the engine.
generated = settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

tenants = st.sampled_from(["acme", "bolt", 'a, "b"\n=c', "unknown"])
models = st.sampled_from(["llama", "qwen"])
tokens = st.none() | st.integers(0, 5000)
verdict = st.sampled_from([None, 0, 1])
nanoseconds = st.none() | st.integers(0, 10**12)
outcomes = st.sampled_from(["useful", "late", "aborted", "failed", "blocked", "unmetered", "rejected"])

request_rows = st.builds(
    rows.request,
    number=st.integers(0, WINDOWS - 1),
    tenant=tenants,
    model=models,
    outcome=outcomes,
    attempts=st.integers(0, 3),
    failed_attempts=st.integers(0, 2),
    input_tokens=tokens,
    output_tokens=tokens,
    input_cache_read_tokens=tokens,
    output_reasoning_tokens=tokens,
    delivered_tokens=tokens,
    delivery=st.sampled_from(["confirmed", "assumed", "partial"]),
    useful_tokens=st.integers(0, 5000),
    usage_state=st.sampled_from(["reported", "estimated", "unknown"]),
    slo_ttft=verdict,
    slo_tpot=verdict,
    slo_e2e=verdict,
    ttft_ns=nanoseconds,
    tpot_ns=nanoseconds,
    e2e_ns=nanoseconds,
    queue_ns=nanoseconds,
    stage_ns=st.dictionaries(st.sampled_from(["prefill", "decode", "other"]), st.integers(0, 10**12), max_size=3),
    flags=st.lists(st.sampled_from(["split_unknown", "clock_skew", "foreign"]), max_size=4),
)
spent_rows = st.builds(
    rows.ledger,
    number=st.integers(0, WINDOWS - 1),
    tenant=tenants,
    model=models,
    atoms=st.integers(0, 10**18) | st.just(0),
    pool=st.sampled_from(["gpu", "gpu", "gateway"]),
    payer=st.sampled_from(["tenant", "tenant", "platform"]),
    busy_ns=st.integers(0, 10**12),
    **{"class": st.sampled_from(ATTEMPT_CLASSES)},
)
shared_rows = st.builds(
    rows.ledger,
    number=st.integers(0, WINDOWS - 1),
    tenant=st.just(""),
    model=st.just("llama"),
    atoms=st.integers(0, 10**18),
    payer=st.just("platform"),
    **{"class": st.sampled_from(SHARED_CLASSES)},
)


def largest_remainder(total: int, weights: dict[Any, int]) -> dict[Any, int]:
    whole = sum(weights.values())
    if whole == 0:
        return dict.fromkeys(weights, 0)
    exact = {key: Fraction(total * weight, whole) for key, weight in weights.items()}
    parts = {key: int(share) for key, share in exact.items()}
    missing = total - sum(parts.values())
    for key in sorted(exact, key=lambda key: (parts[key] - exact[key], key))[:missing]:
        parts[key] += 1
    return parts


def total_or_none(group: list[Row], column: str) -> int | None:
    reported = [row[column] for row in group if row.get(column) is not None]
    return sum(reported) if reported else None


def expected_tenants(requests: list[Row], ledger: list[Row], savings: list[Row]) -> dict[Key, Row]:
    def key_of(row: Row) -> Key:
        return row["window_from"], row["tenant"], row["model"]

    asked: dict[Key, list[Row]] = defaultdict(list)
    spent: dict[Key, list[Row]] = defaultdict(list)
    pots: Counter[str] = Counter()
    for row in requests:
        asked[key_of(row)].append(row)
    for row in ledger:
        of_attempt = row["tenant"] != "" and row["class"] in ATTEMPT_CLASSES
        if of_attempt:
            spent[key_of(row)].append(row)
        if not of_attempt or row["payer"] == "platform":
            pots[row["window_from"]] += row["atoms"]
    loads: dict[Key, int] = {}
    for at in {row["window_from"] for row in ledger}:
        weights = {key: sum(row["atoms"] for row in group if row["pool"] == "gpu") for key, group in spent.items() if key[0] == at}
        loads |= largest_remainder(pots[at], weights)
    saved: Counter[Key] = Counter()
    for row in savings:
        saved[key_of(row)] += row["atoms"]
    return {
        key: expected_tenant(asked[key], spent[key], loads.get(key, 0), saved.get(key))
        for key in {*map(key_of, requests), *spent, *saved}
    }  # fmt: skip


def expected_tenant(asked: list[Row], spent: list[Row], load: int, saved: int | None) -> Row:
    judged = [row for row in asked if row["outcome"] != "rejected" and {row["slo_ttft"], row["slo_tpot"], row["slo_e2e"]} != {None}]
    paid = [row for row in spent if row["payer"] == "tenant"]
    both = [row for row in asked if row["input_tokens"] is not None and row["input_cache_read_tokens"] is not None]
    class_atoms: Counter[str] = Counter()
    for row in paid:
        class_atoms[row["class"]] += row["atoms"]
    return {
        "requests": len(asked),
        "outcomes": dict(Counter(row["outcome"] for row in asked)),
        "attempts": sum(row["attempts"] for row in asked),
        "failed_attempts": sum(row["failed_attempts"] for row in asked),
        "input_tokens": total_or_none(asked, "input_tokens"),
        "output_tokens": total_or_none(asked, "output_tokens"),
        "input_cache_read_tokens": total_or_none(asked, "input_cache_read_tokens"),
        "input_cache_write_tokens": None,
        "output_reasoning_tokens": total_or_none(asked, "output_reasoning_tokens"),
        "delivered_tokens": total_or_none(asked, "delivered_tokens"),
        "delivered_assumed_tokens": sum(row["delivered_tokens"] or 0 for row in asked if row["delivery"] == "assumed"),
        "hit_base_tokens": sum(row["input_tokens"] for row in both),
        "hit_tokens": sum(row["input_cache_read_tokens"] for row in both),
        "useful_tokens": sum(row["useful_tokens"] for row in asked),
        "usage_reported": sum(row["usage_state"] == "reported" for row in asked),
        "usage_estimated": sum(row["usage_state"] == "estimated" for row in asked),
        "usage_unknown": sum(row["usage_state"] == "unknown" for row in asked),
        "split_unknown": sum("split_unknown" in row["flags"] for row in asked),
        "slo_of": len(judged),
        "slo_met": sum(row["outcome"] != "failed" and 0 not in (row["slo_ttft"], row["slo_tpot"], row["slo_e2e"]) for row in judged),
        "flags": dict(Counter(flag for row in asked for flag in set(row["flags"]))),
        "atoms": sum(row["atoms"] for row in paid),
        "class_atoms": {name: atoms for name, atoms in class_atoms.items() if atoms},
        "platform_paid_atoms": sum(row["atoms"] for row in spent) - sum(row["atoms"] for row in paid),
        "busy_ns": sum(row["busy_ns"] for row in spent),
        "fully_loaded_atoms": sum(row["atoms"] for row in paid) + load,
        "saved_gross_atoms": saved,
    }


def read(store: Store, table: str, run_id: int) -> list[Row]:
    return store.query(f"SELECT * FROM {table} WHERE run_id = {{run_id:UInt64}}", {"run_id": run_id}).dicts()


@generated
@given(requests=st.lists(request_rows, max_size=25), ledger=st.lists(spent_rows | shared_rows, max_size=25), saved=st.booleans())
def test_tenant_windows_equal_a_recount_of_requests_and_ledger(store: Store, requests: list[Row], ledger: list[Row], saved: bool) -> None:
    run_id = next(_runs)
    savings = [rows.saving(0, "acme", "llama", 10, 7), rows.saving(0, "acme", "llama", 5, 3)] if saved else []
    requests, ledger = ([{**row, "run_id": run_id} for row in group] for group in (requests, ledger))
    rows.insert(store, {})
    store.command("TRUNCATE TABLE work_savings")
    rows.insert(store, {"requests": requests, "ledger": ledger, "work_savings": savings})

    roll_up(store, rows.scope(WINDOWS, run_id))

    found = read(store, "tenant_windows", run_id)
    wanted = expected_tenants(requests, ledger, savings)
    assert len(found) == len(wanted)
    for row in found:
        row["class_atoms"] = {name: atoms for name, atoms in row["class_atoms"].items() if atoms}
        expected = wanted[rows.text(row["window_from"]), row["tenant"], row["model"]]
        assert {column: row[column] for column in expected} == expected
    assert sum(row["atoms"] for row in found) + sum(row["atoms"] for row in read(store, "unallocated_windows", run_id)) == sum(
        row["atoms"] for row in ledger
    )


@generated
@given(requests=st.lists(request_rows, max_size=40))
def test_latency_windows_are_exact_nearest_ranks_of_what_was_not_rejected(store: Store, requests: list[Row]) -> None:
    run_id = next(_runs)
    requests = [{**row, "run_id": run_id} for row in requests]
    rows.insert(store, {"requests": requests})

    roll_up(store, rows.scope(WINDOWS, run_id))

    wanted: dict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    for row in requests:
        if row["outcome"] == "rejected":
            continue
        measured = {name: row[f"{name}_ns"] for name in ("ttft", "tpot", "e2e", "queue")}
        for measure, value in {**measured, **{f"stage:{name}": value for name, value in row["stage_ns"].items()}}.items():
            if value is not None:
                wanted[row["window_from"], row["tenant"], row["model"], measure].append(value)
    found = read(store, "latency_windows", run_id)
    assert len(found) == len(wanted)
    for row in found:
        values = sorted(wanted[rows.text(row["window_from"]), row["tenant"], row["model"], row["measure"]])
        ranks = {q: values[ceil(Fraction(q, 1000) * len(values)) - 1] for q in (500, 950, 990, 999)}
        assert (row["n"], row["sum_ns"]) == (len(values), sum(values))
        assert (row["p50_ns"], row["p95_ns"], row["p99_ns"], row["p999_ns"]) == tuple(ranks.values())
        assert row["buckets"] == sorted(set(row["buckets"])) and sum(row["counts"]) == len(values)
        places = [bucket for bucket, count in zip(row["buckets"], row["counts"], strict=True) for _ in range(count)]
        assert all(abs(1.01**place * 2 / 2.01 - value) <= 0.005 * value + 1 for place, value in zip(places, values, strict=True))


def test_the_99th_of_a_hundred_is_the_99th_and_the_histogram_is_near_it(store: Store) -> None:
    rows.insert(
        store,
        {"requests": [rows.request(0, "acme", "llama", ttft_ns=i * 1_000_000, stage_quality={"ttft": "derived"}) for i in range(1, 101)]},
    )
    roll_up(store, rows.scope(1))
    (row,) = store.query(
        "SELECT any(p99_ns), any(quality), pow(1.01, quantileExactWeightedArray(0.99)(buckets, counts)) * 2 / 2.01"
        " FROM latency_windows WHERE measure = 'ttft'"
    ).rows
    assert row[0] == 99_000_000
    assert row[1] == ["derived"]
    assert abs(row[2] - 99_000_000) <= 0.005 * 99_000_000


def test_a_window_in_which_nobody_worked_stays_unallocated(store: Store) -> None:
    rows.insert(store, {"ledger": [rows.ledger(0, "", "", 500, **{"class": "idle"}), rows.ledger(1, "acme", "llama", 3)]})
    roll_up(store, rows.scope(2))
    assert store.query("SELECT tenant, atoms, fully_loaded_atoms FROM tenant_windows").rows == (("acme", 3, 3),)
    assert store.query("SELECT class, atoms FROM unallocated_windows").rows == (("idle", 500),)


def test_rated_windows_hold_tenant_price_before_list_and_leave_unknown_models_unpriced(store: Store) -> None:
    rows.insert(
        store,
        {
            "config_versions": [{"config_hash": rows.CONFIG, "currency": "USD", "recorded_at": rows.text(rows.FIRST)}],
            "token_prices": [
                rows.price("llama", "input_uncached", "0.60"),
                rows.price("llama", "output_text", "2.40"),
                rows.price("llama", "output_text", "2.00", tenant="acme"),
            ],
            "billable": [rows.billable("useful", "all"), rows.billable("aborted", "output_text")],
            "attempts": [
                rows.attempt(0, "acme", "llama", input_uncached_tokens=1000, output_text_tokens=7),
                rows.attempt(0, "acme", "llama", "failed", input_uncached_tokens=400),
                rows.attempt(0, "acme", "llama", "aborted", input_tokens=90, output_tokens=3),
                rows.attempt(0, "bolt", "mystery", output_text_tokens=5),
            ],
        },
    )
    roll_up(store, rows.scope(1))
    found = {
        (row[0], row[1]): row[2:]
        for row in store.query(
            "SELECT tenant, bucket, metered_tokens, billable_tokens, useful_tokens, toString(usd_per_million_tokens),"
            " toString(amount), toString(list_amount), price_version FROM rated_windows"
        ).rows
    }
    assert found == {
        ("acme", "input_uncached"): (1490, 1000, 1000, "0.6", "0.0006", "0.0006", rows.CONFIG),
        ("acme", "output_text"): (10, 10, 7, "2", "0.00002", "0.000024", rows.CONFIG),
        ("bolt", "output_text"): (5, 5, 5, None, None, None, rows.CONFIG),
    }


def test_an_empty_run_writes_nothing(store: Store) -> None:
    rows.insert(store, {})
    roll_up(store, rows.scope(1))
    for table in ("tenant_windows", "unallocated_windows", "latency_windows", "rated_windows"):
        assert store.query(f"SELECT count() FROM {table}").scalar() == 0
