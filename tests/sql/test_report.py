"""The report of a case worked out by hand, and its edges: nothing there, as of a date, filters, sketches, unknown prices."""

import csv
import io
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from pipeline.attribution.rollups import roll_up
from pipeline.errors import CheckFailed, ConfigurationError
from pipeline.reporting.files import to_csv, to_json
from pipeline.reporting.report import ReportQuery, build_report, month_to_date
from pipeline.reporting.table import render
from pipeline.store.client import Store
from tests.sql import rows

HOSTILE = '=cmd|"/c calc",\r\n[bold]\x1b[31m'
MS = 1_000_000
SECOND = 1_000 * MS
UNIT = 10**12  # atoms

# Two windows. acme: one useful and one late answer in the first, whose late one still ran in the second (3 atoms, no request there).
# bolt: one useful answer in the second, and one that was refused at the door.
REQUESTS = [
    rows.request(0, "acme", "llama", "useful", attempts=2, failed_attempts=1, input_tokens=1000, output_tokens=100,
                 input_uncached_tokens=600, input_cache_read_tokens=400, output_text_tokens=100, generated_tokens=100,
                 delivered_tokens=100, delivery="confirmed", useful_tokens=100, slo_ttft=1, slo_tpot=1,
                 ttft_ns=100 * MS, tpot_ns=10 * MS, e2e_ns=1090 * MS, queue_ns=5 * MS,
                 stage_ns={"prefill": 60 * MS}, stage_quality={"prefill": "span"}),
    rows.request(0, "acme", "llama", "late", attempts=1, input_tokens=500, output_tokens=50, generated_tokens=50, delivered_tokens=50,
                 delivery="assumed", slo_ttft=0, slo_tpot=1, ttft_ns=2 * SECOND, tpot_ns=20 * MS, e2e_ns=3 * SECOND,
                 stage_ns={"prefill": 70 * MS}, stage_quality={"prefill": "attribute"}, flags=["split_unknown"]),
    rows.request(1, "bolt", "llama", "useful", attempts=1, input_tokens=10, output_tokens=4, input_cache_read_tokens=0, generated_tokens=4,
                 delivered_tokens=4, delivery="confirmed", useful_tokens=4, e2e_ns=200 * MS),
    rows.request(1, "bolt", "llama", "rejected", attempts=0, e2e_ns=1, usage_state="unknown", http_status=429),
]  # fmt: skip
ATTEMPTS = [
    rows.attempt(0, "acme", "llama", "useful", input_uncached_tokens=600, input_cache_read_tokens=400, output_text_tokens=100),
    rows.attempt(0, "acme", "llama", "late", input_uncached_tokens=500, output_text_tokens=50),
    rows.attempt(1, "bolt", "llama", "useful", input_uncached_tokens=10, output_text_tokens=4),
]
LEDGER = [
    rows.ledger(0, "acme", "llama", 30 * UNIT, busy_ns=30),
    rows.ledger(0, "acme", "llama", 10 * UNIT, busy_ns=10) | {"stage": "decode", "class": "late"},
    rows.ledger(0, "acme", "llama", 5 * UNIT, busy_ns=5) | {"stage": "prefill", "class": "failed", "payer": "platform"},
    rows.ledger(0, "", "", 45 * UNIT) | {"stage": "schedule", "class": "idle", "payer": "platform"},
    rows.ledger(1, "acme", "llama", 3, busy_ns=3) | {"class": "late"},
    rows.ledger(1, "bolt", "llama", 7, busy_ns=7),
    rows.ledger(1, "", "", 1) | {"class": "unattributed", "payer": "platform"},
]
PRICES = [
    rows.price("llama", "input_uncached", "0.60"),
    rows.price("llama", "input_cache_read", "0.15"),
    rows.price("llama", "output_text", "2.40"),
]


def case(store: Store, **more: list[dict[str, Any]]) -> None:
    rows.insert(
        store,
        {
            "config_versions": [{"config_hash": rows.CONFIG, "currency": "USD", "recorded_at": rows.text(rows.FIRST)}],
            "requests": REQUESTS,
            "attempts": ATTEMPTS,
            "ledger": LEDGER,
            "pools": [rows.pool(0, "replica-0", 90 * UNIT), rows.pool(1, "replica-0", 11)],
            "work_savings": [rows.saving(0, "acme", "llama", 400, 2 * UNIT)],
            "token_prices": PRICES,
            "billable": [rows.billable("useful", "all"), rows.billable("late", "output_text")],
            "counted_tokens": [rows.counted(0, 1000, 900), rows.counted(1, 40, 10), rows.counted(1, 99, 0, run_id=rows.RUN - 1)],
            "left_out": [rows.left_out(0, 2), rows.left_out(1, 1, "tenant/zed"), rows.left_out(1, 90, run_id=rows.RUN - 1)],
            "blames": [
                {
                    "window_from": rows.text(rows.FIRST),
                    "run_id": run_id,
                    "request_id": "r",
                    "tenant": "acme",
                    "model": "llama",
                    "cause": cause,
                    "measure": measure,
                    "stage": "decode",
                    "excess_ns": 5,
                    "compared": 3,
                }
                for run_id in (rows.RUN, rows.RUN - 1)
                for cause, measure in (("slo", "ttft"), ("tail", "e2e"))
            ],
            "runs": [rows.published(0), rows.published(1)],
            **more,
        },
    )
    roll_up(store, rows.scope(2))


def query(**more: Any) -> ReportQuery:
    return ReportQuery(**{"from_at": rows.FIRST, "to_at": rows.window(2), **more})


def quantiles(*values: int | None, n: int | None = None) -> dict[str, Any]:
    """Of one or two values: p50 is the first, the rest the last."""
    if not values:
        return {"n": 0, "p50": None, "p95": None, "p99": None, "p99_9": None, "kind": None}
    return {"n": n or len(values), "p50": values[0], "p95": values[-1], "p99": values[-1], "p99_9": values[-1], "kind": "exact"}


def by_class(**classes: str) -> dict[str, str]:
    names = ("useful", "late", "aborted", "failed", "superseded", "blocked", "unmetered", "overgenerated", "recompute", "rejected_draft")
    return {**dict.fromkeys((*names, "affinity_miss", "stale_index", "idle_reserved"), "0"), **classes}


def outcomes(**counts: int) -> dict[str, int]:
    return {**dict.fromkeys(("useful", "late", "aborted", "failed", "blocked", "rejected", "unmetered"), 0), **counts}


ACME = {
    "tenant": "acme",
    "requests": outcomes(total=2, useful=1, late=1),
    "attempts": 3,
    "failed_attempts": 1,
    "tokens": {"input": 1500, "output": 150, "input_uncached": 600, "input_cache_read": 400, "input_cache_write": None, "output_text": 100,
               "output_reasoning": None, "generated": 150, "delivered": 150, "delivered_assumed": 50, "useful": 100},
    "usage": {"reported": 2, "estimated": 0, "unknown": 0, "split_unknown": 1},
    # First window: 30 + 10 direct, and all of idle 45 and the platform's 5, nobody else being busy. Second: 3 of 10 atoms of a pot of 1:
    # 0.3, so the one atom goes to bolt's 0.7.
    "cost": {"direct": "40.000000000003", "useful": "30", "waste": "10.000000000003", "platform_paid": "5",
             "fully_loaded": "90.000000000003", "by_class": by_class(useful="30", late="10.000000000003")},
    "cost_per_million_useful_tokens": {"direct": "400000.00000003", "fully_loaded": "900000.00000003"},
    # 600 x 0.60 + 400 x 0.15 + 100 x 2.40 of the useful one, 50 x 2.40 of the late one (its input is not billable), per million.
    "charged": "0.00078",
    "waste_ratio": (10 * UNIT + 3) / (40 * UNIT + 3),
    "cache": {"hit_ratio": 400 / 1000, "saved_gross": "2", "kind": "estimate"},
    "latency": {"ttft_ns": quantiles(100 * MS, 2 * SECOND), "tpot_ns": quantiles(10 * MS, 20 * MS),
                "e2e_ns": quantiles(1090 * MS, 3 * SECOND), "queue_ns": quantiles(5 * MS)},
    "stages": {"prefill": {**quantiles(60 * MS, 70 * MS), "quality": ["attribute", "span"]}},
    "slo": {"met": 1, "of": 2, "ratio": 0.5},
}  # fmt: skip
BOLT = {
    "tenant": "bolt",
    "requests": outcomes(total=2, useful=1, rejected=1),
    "attempts": 1,
    "failed_attempts": 0,
    "tokens": {"input": 10, "output": 4, "input_uncached": None, "input_cache_read": 0, "input_cache_write": None, "output_text": None,
               "output_reasoning": None, "generated": 4, "delivered": 4, "delivered_assumed": 0, "useful": 4},
    "usage": {"reported": 1, "estimated": 0, "unknown": 1, "split_unknown": 0},
    "cost": {"direct": "0.000000000007", "useful": "0.000000000007", "waste": "0", "platform_paid": "0", "fully_loaded": "0.000000000008",
             "by_class": by_class(useful="0.000000000007")},
    "cost_per_million_useful_tokens": {"direct": "0.00000175", "fully_loaded": "0.000002"},
    "charged": "0.0000156",  # 10 x 0.60 + 4 x 2.40 per million
    "waste_ratio": 0.0,
    "cache": {"hit_ratio": 0.0, "saved_gross": None, "kind": "estimate"},
    "latency": {"ttft_ns": quantiles(), "tpot_ns": quantiles(), "e2e_ns": quantiles(200 * MS), "queue_ns": quantiles()},
    "stages": {},
    "slo": {"met": 0, "of": 0, "ratio": None},
}  # fmt: skip
TOTALS = {
    "requests": outcomes(total=4, useful=2, late=1, rejected=1),
    "attempts": 4,
    "failed_attempts": 1,
    "tokens": {"input": 1510, "output": 154, "input_uncached": 600, "input_cache_read": 400, "input_cache_write": None, "output_text": 100,
               "output_reasoning": None, "generated": 154, "delivered": 154, "delivered_assumed": 50, "useful": 104},
    "usage": {"reported": 3, "estimated": 0, "unknown": 1, "split_unknown": 1},
    "cost": {"direct": "40.00000000001", "useful": "30.000000000007", "waste": "10.000000000003", "platform_paid": "5",
             "fully_loaded": "90.000000000011", "by_class": by_class(useful="30.000000000007", late="10.000000000003")},
    # 40.00000000001 / 104 and 90.000000000011 / 104, times a million, at 12 places
    "cost_per_million_useful_tokens": {"direct": "384615.384615480769", "fully_loaded": "865384.615384721154"},
    "charged": "0.0007956",
    "waste_ratio": (10 * UNIT + 3) / (40 * UNIT + 10),
    "cache": {"hit_ratio": 400 / 1010, "saved_gross": "2", "kind": "estimate"},
    "latency": {"ttft_ns": quantiles(100 * MS, 2 * SECOND), "tpot_ns": quantiles(10 * MS, 20 * MS),
                "e2e_ns": quantiles(1090 * MS, 3 * SECOND, n=3), "queue_ns": quantiles(5 * MS)},
    "stages": {"prefill": {**quantiles(60 * MS, 70 * MS), "quality": ["attribute", "span"]}},
    "slo": {"met": 1, "of": 2, "ratio": 0.5},
}  # fmt: skip


BLAMED = {"tenant": "acme", "model": "llama", "stage": "decode", "requests": 1, "excess_ns": 5, "incomparable": 0}


def test_every_figure_of_the_hand_worked_case_is_in_the_json(store: Store) -> None:
    case(store)
    during = {"from": "2026-11-30T10:00:00Z", "to": "2026-11-30T10:30:00Z"}
    assert json.loads(to_json(build_report(store, query(), dead_letters=2))) == {
        "schema": "tokenpath.report/1",
        **during,
        "requested": during,
        "available": during,
        "by": "tenant",
        "currency": "USD",
        "as_of": None,
        "method": "gpu-step-time-v1",
        "useful_policy": "useful-v1",
        "windows": 2,
        "provisional_windows": 0,
        "config_hash": rows.CONFIG,
        "tenants": [ACME, BOLT],
        "unallocated": {
            "unattributed": "0.000000000001",
            "platform_waste": "5",
            "idle": "45",
            "idle_reserved": "0",
            "overhead": "0",
        },
        "pools": {"gpu": "90.000000000011"},
        "totals": TOTALS,
        "leak": [
            {"class": "idle", "stage": "schedule", "cost": "45"},
            {"class": "useful", "stage": "other", "cost": "30.000000000007"},
            {"class": "late", "stage": "decode", "cost": "10"},
            {"class": "failed", "stage": "prefill", "cost": "5"},
            {"class": "late", "stage": "other", "cost": "0.000000000003"},
            {"class": "unattributed", "stage": "other", "cost": "0.000000000001"},
        ],
        "misses": [{**BLAMED, "measure": "ttft"}],
        "tail": [{**BLAMED, "measure": "e2e"}],
        "conservation": {"pools_atoms": "90000000000011", "ledger_atoms": "90000000000011", "difference_atoms": "0"},
        "data_quality": {
            "unknown_tenant_ratio": 0.0,
            "rejected_spans": 0,
            "dead_letters": 2,
            "unpriced_replicas": [],
            "unpriced_models": [],
            "left_out": {"reused_id": 3},
            "unaccounted_tokens": {"prompt": 130, "generation": None},
            "flags": {"split_unknown": 1},
        },
    }


def test_other_groupings_and_filters_hold_the_same_leaves(store: Store) -> None:
    case(store)
    by_model = json.loads(to_json(build_report(store, query(by="model"))))
    assert by_model["models"] == [{"model": "llama", **TOTALS}]
    by_hour = json.loads(to_json(build_report(store, query(by="hour"))))
    assert by_hour["hours"] == [{"hour": "2026-11-30T10:00:00Z", **TOTALS}]
    bolt = json.loads(to_json(build_report(store, query(tenant="bolt"))))
    assert bolt["tenants"] == [BOLT]
    assert (bolt["leak"], bolt["misses"], bolt["tail"]) == ([{"class": "useful", "stage": "other", "cost": "0.000000000007"}], [], [])
    assert {"tenant": "bolt", **bolt["totals"]} == BOLT
    assert bolt["conservation"]["ledger_atoms"] == "90000000000011"  # always the whole range
    assert json.loads(to_json(build_report(store, query(model="nobody's"))))["tenants"] == []


def test_a_range_inside_a_window_is_widened_and_says_so(store: Store) -> None:
    case(store)
    report = build_report(store, query(from_at=rows.FIRST + timedelta(minutes=3), to_at=rows.FIRST + timedelta(minutes=4)))
    assert (report.range.from_at, report.range.to_at, report.windows) == (rows.FIRST, rows.window(1), 1)
    assert "widened to whole windows" in printed(report)


def test_as_of_shows_the_run_that_was_the_newest_then(store: Store) -> None:
    case(store)
    later = rows.RUN + 1
    rows.insert(store, {"ledger": [rows.ledger(0, "acme", "llama", 5, later)], "pools": [rows.pool(0, "replica-0", 5, later)]})
    roll_up(store, rows.scope(1, later))
    corrected_at = rows.FIRST + timedelta(hours=6)
    rows.insert(store, {"runs": [rows.published(0, later, corrected_at)]})

    assert build_report(store, query()).totals.cost.direct == "0.000000000015"
    before = build_report(store, query(as_of=corrected_at - timedelta(microseconds=1)))
    assert before.totals.cost.direct == "40.00000000001"
    assert before.conservation.difference_atoms == "0"
    assert build_report(store, query(as_of=rows.FIRST)).windows == 0


def test_quantiles_come_from_sketches_once_the_requests_are_gone(store: Store) -> None:
    case(store)
    exact = build_report(store, query()).totals.latency.e2e_ns
    store.command("TRUNCATE TABLE requests")
    report = build_report(store, query())
    merged, alone = report.totals.latency.e2e_ns, report.groups[0].figures.latency.ttft_ns
    assert (merged.kind, merged.n) == ("sketch", 3)
    assert merged.p50 is not None and exact.p50 is not None and abs(merged.p50 - exact.p50) <= 0.01 * exact.p50
    assert (alone.kind, alone.p99) == ("exact", 2 * SECOND)  # acme's requests are all in one window, whose ranks were kept
    assert "≈" in printed(report)


def test_a_broken_sum_is_shouted(store: Store) -> None:
    case(store, pools=[rows.pool(0, "replica-0", 90 * UNIT), rows.pool(1, "replica-0", 12)])
    report = build_report(store, query())
    assert report.conservation.difference_atoms == "1"
    assert "NOT RECONCILED" in printed(report)


def test_what_has_no_price_is_unknown_and_listed_never_zero(store: Store) -> None:
    unpriced = [rows.pool(number, "replica-9", 0, priced=0) for number in (0, 1)]
    free = [{**row, "atoms": 0} for row in LEDGER]
    case(store, pools=unpriced, ledger=free, token_prices=PRICES[:1])
    report = build_report(store, query())
    (acme, _) = (group.figures for group in report.groups)
    assert acme.cost.direct is None
    assert acme.cost_per_million_useful_tokens.direct is None
    assert acme.charged == "0.00036"  # what has a price; the list says that more has none
    assert report.unallocated["idle"] is None
    assert report.data_quality.unpriced_replicas == ("replica-9",)
    assert report.data_quality.unpriced_models == ("llama",)
    assert "Without a price" in printed(report)


def test_two_currencies_are_not_added(store: Store) -> None:
    case(store, pools=[rows.pool(0, "replica-0", 1), rows.pool(1, "replica-0", 1, currency="EUR")])
    with pytest.raises(CheckFailed, match="EUR and USD"):
        build_report(store, query())


def test_an_empty_store_says_what_to_do_and_an_empty_range_where_data_is(store: Store) -> None:
    rows.insert(store, {})
    empty = build_report(store, query())
    assert "Nothing has been attributed yet" in printed(empty)
    assert json.loads(to_json(empty))["tenants"] == []
    assert json.loads(to_json(empty))["totals"]["cost"]["direct"] is None
    assert json.loads(to_json(empty))["totals"]["charged"] is None
    assert to_csv(empty).count("\r\n") == 1
    case(store)
    elsewhere = build_report(store, query(from_at=rows.window(50), to_at=rows.window(60)))
    assert "--from 2026-11-30T10:00:00Z --to 2026-11-30T10:30:00Z" in " ".join(printed(elsewhere).split())


def test_the_csv_has_one_line_per_tenant_with_the_leaves_of_the_json_and_text_as_it_is(store: Store) -> None:
    hostile = [{**row, "tenant": HOSTILE} if row["tenant"] == "bolt" else row for row in REQUESTS]
    case(store, requests=hostile, ledger=[{**row, "tenant": HOSTILE} if row["tenant"] == "bolt" else row for row in LEDGER])
    report = build_report(store, query())
    lines = list(csv.DictReader(io.StringIO(to_csv(report), newline="")))
    assert [line["tenant"] for line in lines] == ["acme", HOSTILE]
    assert lines[0]["cost_by_class_late"] == "10.000000000003"
    assert lines[0]["tokens_input_cache_write"] == ""
    assert lines[0]["latency_ttft_ns_p99_9"] == str(2 * SECOND)
    assert lines[0]["stages_prefill_quality"] == "attribute|span"
    assert (lines[1]["stages_prefill_n"], lines[1]["stages_prefill_p50"]) == ("0", "")


def test_the_tables_fit_a_hundred_columns_and_a_name_cannot_act_on_the_terminal(store: Store) -> None:
    long = "x" * 60
    case(store, requests=[{**row, "tenant": HOSTILE if row["tenant"] == "bolt" else long} for row in REQUESTS])
    shown = printed(build_report(store, query()))
    assert max(map(len, shown.splitlines())) <= 100
    assert "\x1b" not in shown and "\r" not in shown
    assert "[bold]" in shown  # data, not markup
    assert re.search(r"late +decode +10\.0000 +11\.1%", shown)
    assert re.search(r"TTFT +decode +1 +5 ns", shown) and re.search(r"end to end +decode +1 +5 ns", shown)
    for figure in ("40.0000", "10.0000", "384,615.38", "Reconciled", "difference 0", "2.00 s", "50.0%", "–"):
        assert figure in shown


def test_a_range_must_run_forward_and_name_its_zone() -> None:
    with pytest.raises(ConfigurationError, match="not before"):
        query(to_at=rows.FIRST)
    with pytest.raises(ConfigurationError, match="time zone"):
        query(from_at=rows.FIRST.replace(tzinfo=None))
    assert month_to_date(rows.FIRST) == (rows.FIRST.replace(day=1, hour=0), rows.FIRST + timedelta(seconds=1))


def printed(report: Any) -> str:
    written = io.StringIO()
    render(report, Console(file=written, width=100, force_terminal=False, no_color=True))
    return written.getvalue()
