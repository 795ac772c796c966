"""A store without any published window: no panel fails, none invents a number."""

from math import isfinite

import pytest

from dashboards.macros import TimeRange, expand
from dashboards.panel import Panel, query_text
from dashboards.viewer import DASHBOARDS
from pipeline.store.client import Store
from tests.conftest import empty


@pytest.fixture(scope="module")
def bare(engine: Store) -> Store:
    empty(engine)
    return engine


@pytest.mark.parametrize("panel", [pytest.param(p, id=p.query) for d in DASHBOARDS.values() for p in d.panels])
def test_a_panel_on_nothing_shows_nothing(bare: Store, panel: Panel) -> None:
    sql, parameters = expand(query_text(panel.query), TimeRange(0, 4_000_000_000, 86_400), {})
    rows = bare.query(sql, parameters).rows
    if panel.kind == "stat":
        assert all(cell in (None, 0) for row in rows for cell in row)
    assert all(isfinite(cell) for row in rows for cell in row if isinstance(cell, float))


def test_variables_have_no_values_yet(bare: Store) -> None:
    assert [bare.query(query_text(v.query)).rows for d in DASHBOARDS.values() for v in d.variables] == [()] * 2 * len(DASHBOARDS)
