"""Every panel's and variable's query runs on the real engine: on data, on an empty store, and with hostile variable values."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any

import pytest

from dashboards.macros import TimeRange, expand
from dashboards.panel import Dashboard, Panel, query_text
from dashboards.viewer import DASHBOARDS
from pipeline.store.client import Store, Table
from tests.conftest import empty
from tests.dashboards.seed import FROM_S, TO_S, seed

PANELS = [pytest.param(d, p, id=f"{name}-{p.query}") for name, d in DASHBOARDS.items() for p in d.panels]
ALL: Mapping[str, Sequence[str]] = {}
RANGE = TimeRange(FROM_S, TO_S, 900)
HOSTILE = ["'; DROP TABLE tenant_windows; --", "\\", "a' OR 1=1 --", "${tenant}", "{tenant:String}", "\u0000\n\t", "名前", "x" * 10_000]


@pytest.fixture(scope="module")
def seeded(engine: Store) -> Store:
    empty(engine)
    seed(engine)
    return engine


def run(store: Store, panel: Panel, variables: Mapping[str, Sequence[str]], span: TimeRange = RANGE) -> Table:
    sql, parameters = expand(query_text(panel.query), span, variables)
    return store.query(sql, parameters)


def value(store: Store, name: str, variables: Mapping[str, Sequence[str]] = ALL) -> Any:
    sql, parameters = expand(query_text(name), RANGE, variables)
    rows = store.query(sql, parameters).rows
    return rows[0][0] if rows else None


@pytest.mark.parametrize(("dashboard", "panel"), PANELS)
def test_a_panel_answers_in_the_shape_of_its_kind(seeded: Store, dashboard: Dashboard, panel: Panel) -> None:
    table = run(seeded, panel, ALL)
    assert table.rows
    assert len(set(table.columns)) == len(table.columns)
    assert all(isfinite(cell) for row in table.rows for cell in row if isinstance(cell, float))
    if panel.kind == "stat":
        assert len(table.rows) == 1
    if panel.kind in ("timeseries", "bars"):
        times = [row[0] for row in table.rows]
        assert table.columns[0] == "time"
        assert all(isinstance(at, datetime) for at in times)
        assert times == sorted(times)
        assert sum(isinstance(cell, str) for cell in table.rows[0]) <= 1
    assert set(panel.columns) <= set(table.columns), "a unit is set for a column that the query does not return"


@pytest.mark.parametrize(("dashboard", "panel"), PANELS)
def test_hostile_variable_values_are_only_values(seeded: Store, dashboard: Dashboard, panel: Panel) -> None:
    table = run(seeded, panel, {"tenant": HOSTILE, "model": HOSTILE})
    if panel.query != "cost_trust":
        assert all(cell in (None, 0) for row in table.rows for cell in row if not isinstance(cell, str | datetime))
    assert seeded.query("SELECT count() FROM tenant_windows").scalar() == 4


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS.keys())
def test_variables_list_what_is_there(seeded: Store, dashboard: Dashboard) -> None:
    values = {v.name: [row[0] for row in seeded.query(query_text(v.query)).rows] for v in dashboard.variables}
    assert values == {"tenant": ["acme", "globex"], "model": ["m-a", "m-b"]}


def test_figures_worked_out_by_hand(seeded: Store) -> None:
    assert value(seeded, "cost_spend") == 8.0  # acme 3 + globex 1 + idle 2 x 2
    assert value(seeded, "cost_spend", {"tenant": ["acme"]}) == 3.0
    assert value(seeded, "cost_spend", {"tenant": ["acme", "globex"]}) == 4.0
    assert value(seeded, "cost_waste_ratio") == pytest.approx(1 - 3 / 8)
    assert value(seeded, "cost_per_useful") == pytest.approx(8.0 / 2)  # fully loaded 8 USD over 2M useful tokens
    assert value(seeded, "cost_per_useful", {"model": ["m-b"]}) == pytest.approx(2.0 / 0.5)
    assert value(seeded, "cost_cache_saved") == 2.0
    assert value(seeded, "latency_slo") == 0.9
    assert value(seeded, "latency_requests") == 200
    assert value(seeded, "latency_ttft_p99") == pytest.approx(99e6, rel=0.01)


def test_bands_of_the_cost_picture_add_up_to_the_spend(seeded: Store) -> None:
    sql, parameters = expand(query_text("cost_over_time"), RANGE, ALL)
    rows = seeded.query(sql, parameters).rows
    assert sorted({row[1] for row in rows}) == ["acme", "globex", "idle"]
    assert sum(row[2] for row in rows) == value(seeded, "cost_spend")
    sql, parameters = expand(query_text("cost_by_class"), RANGE, ALL)
    assert {row[0]: row[1] for row in seeded.query(sql, parameters).rows} == {"idle": 4.0, "useful": 3.0, "late": 1.0}
    for chosen, cost in ((ALL, 8.0), ({"tenant": ["acme"]}, 3.0)):
        sql, parameters = expand(query_text("cost_pools"), RANGE, chosen)
        assert seeded.query(sql, parameters).rows == (("gpu", cost, 1.0),)


def test_the_leak_map_and_the_useful_part_add_up_to_the_bill(seeded: Store) -> None:
    assert (value(seeded, "leak_spend"), value(seeded, "leak_lost")) == (value(seeded, "cost_spend"), 5.0)
    assert value(seeded, "leak_ratio") == value(seeded, "cost_waste_ratio")
    assert value(seeded, "leak_largest") == "idle at schedule"
    sql, parameters = expand(query_text("leak_map"), RANGE, ALL)
    cells = {row.pop("class"): row for row in seeded.query(sql, parameters).dicts()}
    assert {name: (row["cost"], row["schedule"], row["decode"]) for name, row in cells.items()} == {
        "idle": (4.0, 4.0, None), "late": (1.0, 1.0, None),
    }  # fmt: skip
    for name in ("leak_over_time", "leak_tenants", "leak_replicas"):
        sql, parameters = expand(query_text(name), RANGE, ALL)
        rows = seeded.query(sql, parameters).dicts()
        assert sum(float(row["leaked"] if "leaked" in row else row["cost"]) for row in rows) == 5.0
    assert value(seeded, "leak_spend", {"tenant": ["acme"]}) == 3.0
    for name in ("leak_misses", "leak_tail"):
        sql, parameters = expand(query_text(name), RANGE, ALL)
        assert seeded.query(sql, parameters).rows == (("TTFT", "schedule", 1, 1.0, 1e9),)


def test_stage_bands_add_up_to_the_mean(seeded: Store) -> None:
    sql, parameters = expand(query_text("latency_stages"), RANGE, ALL)
    rows = seeded.query(sql, parameters).rows
    assert {row[1] for row in rows} == {"prefill", "other"}
    assert all(row[2] == pytest.approx(50.5e6) for row in rows)


def test_windows_are_half_open(seeded: Store) -> None:
    panel = next(p for p in DASHBOARDS["cost"].panels if p.query == "cost_spend")
    first = run(seeded, panel, ALL, TimeRange(FROM_S, FROM_S + 900, 900)).rows[0][0]
    second = run(seeded, panel, ALL, TimeRange(FROM_S + 900, FROM_S + 1800, 900)).rows[0][0]
    assert (first, second) == (5.0, 3.0)


def test_an_unknown_macro_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown macro"):
        expand("SELECT $__timeFilter(x)", RANGE, ALL)


def test_what_nobody_measured_is_unknown_and_not_0(engine: Store) -> None:
    """Last in this file: it takes rows away that the tests above share."""
    empty(engine)
    seed(engine)
    engine.command("TRUNCATE TABLE latency_windows")
    sql, parameters = expand(query_text("cost_tenants"), RANGE, ALL)
    assert [row["p99 TTFT"] for row in engine.query(sql, parameters).dicts()] == [None, None]


def test_busy_time_without_a_price_has_no_cost_and_the_replica_is_named(engine: Store) -> None:
    """Last in this file too: it changes what the tests above share."""
    empty(engine)
    seed(engine)
    tables = ("tenant_windows", "unallocated_windows")
    for table in tables:
        engine.command(f"ALTER TABLE {table} UPDATE atoms = 0, busy_ns = 5 WHERE 1 SETTINGS mutations_sync = 1")
    engine.command("ALTER TABLE tenant_windows UPDATE fully_loaded_atoms = 0 WHERE 1 SETTINGS mutations_sync = 1")
    engine.insert_rows("pools", [{"window_from": "2026-11-01 10:00:00", "run_id": 2, "pool": "gpu", "resource": "vllm-9", "priced": 0}])
    assert (value(engine, "cost_spend"), value(engine, "cost_per_useful")) == (None, None)
    for name in ("cost_tenants", "cost_models"):
        sql, parameters = expand(query_text(name), RANGE, ALL)
        assert {(row["spend"], row["per 1M useful"]) for row in engine.query(sql, parameters).dicts()} == {(None, None)}
    sql, parameters = expand(query_text("cost_trust"), RANGE, ALL)
    assert dict(engine.query(sql, parameters).rows)["replicas without a price"] == "vllm-9"
