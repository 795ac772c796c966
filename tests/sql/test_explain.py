"""Why a period cost more: read from published windows, a case worked out by hand, and edges."""

import io
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from pipeline.errors import CheckFailed, ConfigurationError
from pipeline.reporting.explain import explain, movers, periods, render, to_json
from pipeline.reporting.report import ReportQuery
from pipeline.store.client import Store
from tests.sql import rows

USD = 10**12
SECOND = 10**9
NOW = rows.window(100)
NOT_GIVEN = dict.fromkeys(("from", "to", "as_of", "against_from", "against_to", "against_as_of"))


def case(store: Store, run_id: int = rows.RUN, price: int = 4 * USD, recorded_at: datetime = rows.FIRST + timedelta(hours=5)) -> None:
    """Window 0: acme useful for 300 of 900 s, globex late for 150. Window 1: acme useful for 600 s for twice the tokens, 300 s idle."""
    tenant = {"model": "m", "run_id": run_id}
    rows.insert(
        store,
        {
            "pools": [
                rows.pool(0, "r0", price, run_id, capacity_ns=900 * SECOND, busy_ns=450 * SECOND, idle_ns=450 * SECOND),
                rows.pool(1, "r0", price, run_id, capacity_ns=900 * SECOND, busy_ns=600 * SECOND, idle_ns=300 * SECOND),
                rows.pool(1, "staff", USD, run_id, pool="overhead"),
                rows.pool(1, "r9", 0, run_id, capacity_ns=900 * SECOND, busy_ns=70 * SECOND, idle_ns=830 * SECOND, priced=0),
            ],
            "ledger": [
                rows.ledger(0, "acme", "m", price // 3, run_id, busy_ns=300 * SECOND, resource="r0"),
                rows.ledger(0, "globex", "m", price // 6, run_id, busy_ns=150 * SECOND, resource="r0", **{"class": "late"}),
                rows.ledger(1, "acme", "m", price * 2 // 3, run_id, busy_ns=600 * SECOND, resource="r0"),
                rows.ledger(1, "acme", "m", 0, run_id, busy_ns=70 * SECOND, resource="r9"),
            ],
            "tenant_windows": [
                {"window_from": rows.text(rows.window(0)), "tenant": "acme", "useful_tokens": 1000, "atoms": price // 3, **tenant},
                {"window_from": rows.text(rows.window(0)), "tenant": "globex", "useful_tokens": 0, "atoms": price // 6, **tenant},
                {"window_from": rows.text(rows.window(1)), "tenant": "acme", "useful_tokens": 2000, "atoms": price * 2 // 3, **tenant},
            ],
            "runs": [rows.published(number, run_id, recorded_at) for number in (0, 1)],
        },
    )


def queries(**more: Any) -> tuple[ReportQuery, ReportQuery]:
    return ReportQuery(rows.window(0), rows.window(1), **more), ReportQuery(rows.window(1), rows.window(2), **more)


def test_a_quarter_hour_against_the_one_before_it(store: Store) -> None:
    """Twice the tokens at the same work; the waste of globex is gone; idle 450 of 450 busy became 300 of 600; the price is the same.

    Unpriced r9 is no part of it. The factors multiply: 4 = p (300 + 150 + 450) and 4 = p (600 + 0 + 300).
    """
    case(store)
    found = explain(store, *queries())
    assert found.difference == USD and sum(found.parts.values()) == USD
    assert {name for name, atoms in found.parts.items() if atoms > 0} == {"volume", "overhead"}
    assert {name for name, atoms in found.parts.items() if atoms < 0} == {"waste", "utilisation"}
    assert found.parts["overhead"] == USD
    assert [(name, atoms / USD) for name, atoms in movers(found)] == [
        (("acme", "m"), pytest.approx(4 / 3)),
        (("globex", "m"), pytest.approx(-2 / 3)),
    ]


def test_json_and_table_say_the_same(store: Store) -> None:
    case(store)
    found = explain(store, *queries())
    document = json.loads(to_json(found))
    assert (document["schema"], document["currency"], document["difference"]) == ("tokenpath.explain/1", "USD", "1")
    assert (document["before"]["cost"], document["after"]["cost"]) == ("4", "5")
    assert document["tenants"][0]["useful_tokens"] == [1000, 2000]
    console = Console(file=io.StringIO(), width=120)
    render(found, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "useful tokens 1,000 → 2,000" in shown and "GPU time idle 50.0% → 33.3%" in shown
    assert "busy time that was not useful 33.3% → 0.0%" in shown and "a replica-hour 16.00 → 16.00" in shown
    assert "+1.0000" in shown


def test_the_same_period_before_and_after_a_corrected_price(store: Store) -> None:
    case(store)
    case(store, rows.RUN + 1, price=6 * USD, recorded_at=rows.FIRST + timedelta(hours=9))
    times = {**NOT_GIVEN, "from": rows.window(0), "to": rows.window(2), "against_as_of": rows.FIRST + timedelta(hours=6)}
    found = explain(store, *periods(times, NOW))
    assert {name: atoms for name, atoms in found.parts.items() if atoms} == {"price": 4 * USD}


def test_without_options_it_is_the_month_to_date_against_as_long_before() -> None:
    before, after = periods(NOT_GIVEN, NOW)
    assert (after.from_at, before.to_at) == (NOW.replace(day=1, hour=0, minute=0), after.from_at)
    assert before.to_at - before.from_at == after.to_at - after.from_at
    with pytest.raises(ConfigurationError, match="not before"):
        periods({**NOT_GIVEN, "from": NOW, "to": NOW}, NOW)


def test_a_period_without_windows_is_said(store: Store) -> None:
    case(store)
    with pytest.raises(CheckFailed, match="no attributed window in 2026-11-30T10:30"):
        explain(store, queries()[0], ReportQuery(rows.window(2), rows.window(3)))
