"""Numbers as people read them, and pictures as plotly takes them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dashboards.cost import COST
from dashboards.figures import figure, format_value, stat, table
from dashboards.latency import LATENCY
from dashboards.leak import LEAK
from dashboards.panel import Unit

AT = datetime(2026, 11, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (None, "usd", "–"),
        (0, "usd", "$0.00"),
        (1234.5, "usd", "$1,234.50"),
        (0.0456, "usd", "$0.0456"),
        (-2, "usd", "-$2.00"),
        (0.628, "ratio", "62.8 %"),
        (999_600, "ns", "1000 µs"),
        (150_000, "ns", "150 µs"),
        (98_200_000, "ns", "98.2 ms"),
        (2_300_000_000, "ns", "2.3 s"),
        (90_000_000_000, "ns", "1.5 min"),
        (0, "ns", "0 ns"),
        (1_234_567, "tokens", "1,234,567"),
        (AT, "time", "2026-11-01 10:00:00"),
        ("<b>", "text", "<b>"),
    ],
)
def test_a_value_is_shown_with_its_unit_and_unknown_is_not_zero(value: Any, unit: Unit, shown: str) -> None:
    assert format_value(value, unit) == shown


def test_a_table_marks_numbers_and_a_stat_without_rows_is_unknown() -> None:
    panel = next(p for p in COST.panels if p.query == "cost_by_class")
    assert table(panel, ["class", "cost", "share"], [("idle", 4.0, 0.5)]) == {
        "columns": ["class", "cost", "share"],
        "numeric": [False, True, True],
        "rows": [["idle", "$4.00", "50.0 %"]],
    }
    assert stat(COST.panels[0], []) == "–"


def test_a_heat_table_colours_by_the_root_of_the_share_of_the_largest_cell() -> None:
    panel = replace(next(p for p in LEAK.panels if p.heat), columns={"cost": "usd", "a": "usd", "b": "usd"}, heat=("a", "b"))
    shown = table(panel, ["class", "cost", "a", "b"], [("late", 5.0, 4.0, 1.0), ("idle", 0.0, None, 0.0)])
    assert shown["heat"] == [[0, 0, 1, 0.5], [0, 0, 0, 0]]
    assert shown["rows"][1] == ["idle", "$0.00", "", "$0.00"]
    assert table(panel, ["class", "cost", "a", "b"], [("idle", 0.0, None, 0.0)])["heat"] == [[0, 0, 0, 0]]


def test_the_largest_series_comes_first_and_greys_last() -> None:
    panel = next(p for p in COST.panels if p.query == "cost_over_time")
    rows = [(AT, "idle", 9.0), (AT, "small", 1.0), (AT, "large", 5.0)]
    assert [trace["name"] for trace in figure(panel, ["time", "band", "cost"], rows)["data"]] == ["large", "small", "idle"]


@pytest.mark.parametrize(("largest_ns", "suffix", "drawn"), [(50_000_000, " ms", 50.0), (3_000_000_000, " s", 3.0)])
def test_an_axis_of_times_is_in_the_unit_that_fits(largest_ns: int, suffix: str, drawn: float) -> None:
    panel = next(p for p in LATENCY.panels if p.query == "latency_ttft")
    picture = figure(panel, ["time", "p50", "p99"], [(AT, None, largest_ns)])
    assert picture["layout"]["yaxis"]["ticksuffix"] == suffix
    assert [list(trace["y"]) for trace in picture["data"]] == [[None], [drawn]]
