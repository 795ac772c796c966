"""Measures: what counters, rates and gauges tell of a window, whatever order, gaps, restarts and repetitions their points come in."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from pipeline.attribution.job import run
from pipeline.attribution.measures import measure, together
from pipeline.attribution.scope import Scope
from pipeline.store.client import Store
from schemas.settings import AttributionSettings
from tests.conftest import empty
from tests.ingest import ingest
from tests.oracle.measures import Point, counted, held
from tests.sql.points import WINDOW, WINDOWS, S, T, measured, point, rule, scope

COUNTER = rule("tokens_total", "prompt_tokens", "counter")
GAUGE = rule("running", "running_requests", "gauge")
RATE = rule("rate", "pcie_tx_bytes", "rate")


def counter(at_s: float, value: float | None, series: int = 1, **more: Any) -> dict[str, Any]:
    return point("tokens_total", series, int(at_s * S), value, kind="sum_cumulative", **more)


def gauge(at_s: float, value: float | None, series: int = 1, **more: Any) -> dict[str, Any]:
    return point("running", series, int(at_s * S), value, **more)


def values(rows: list[dict[str, Any]]) -> dict[int, float]:
    return {row["window"]: row["value"] for row in rows}


def test_the_increase_of_a_counter_is_divided_at_the_border_by_time(store: Store) -> None:
    rows = measured(store, [COUNTER], [counter(-15, 1000), counter(45, 1060), counter(75, 1160), counter(105, 1180)])
    # 60 over a minute, of which 45 s lie in the first window; 100 over half a minute, half of it in each.
    assert values(rows) == {0: 45 + 50, 1: 50 + 20}
    assert [row["covered_ns"] for row in rows] == [60 * S, 45 * S]
    assert rows[0]["replica"] == "engine" and rows[0]["source"] == "tokens_total"


def test_a_counter_that_restarts_counts_what_it_has_since_trap_14(store: Store) -> None:
    assert values(measured(store, [COUNTER], [counter(0, 500), counter(15, 530), counter(30, 7), counter(45, 9)])) == {0: 30 + 7 + 2}


def test_a_start_time_shows_a_restart_that_the_value_hides_trap_14(store: Store) -> None:
    assert values(measured(store, [COUNTER], [counter(0, 500), counter(30, 600, start_ns=20 * S), counter(45, 610, start_ns=20 * S)])) == {
        0: 610
    }


def test_a_first_point_counts_from_its_start_or_from_itself(store: Store) -> None:
    assert values(measured(store, [COUNTER], [counter(30, 500), counter(45, 520)])) == {0: 20}
    empty(store)
    assert values(measured(store, [COUNTER], [counter(30, 500, start_ns=0), counter(45, 520, start_ns=0)])) == {0: 520}
    empty(store)  # a start that only says when somebody began to look
    assert values(measured(store, [COUNTER], [counter(30, 500, start_ns=30 * S), counter(45, 520, start_ns=30 * S)])) == {0: 20}


def test_the_same_cumulative_point_flushed_twice_is_not_added(store: Store) -> None:
    points = [counter(0, 5), counter(30, 15)]
    again = [one | {"received_ns": T + 1, "log_offset": 9} for one in points]
    assert values(measured(store, [COUNTER], [*points, *again, counter(40, 15), counter(50, 15)])) == {0: 10}


def test_deltas_are_added_up_and_lie_where_they_say(store: Store) -> None:
    points = [
        point("tokens_total", 1, at * S, value, kind="sum_delta", start_ns=start * S) for start, at, value in [(0, 30, 9), (30, 90, 10)]
    ]
    assert values(measured(store, [COUNTER], points)) == {0: 9 + 5, 1: 5}


def test_more_than_four_minutes_without_a_point_are_unknown(store: Store) -> None:
    rows = measured(store, [COUNTER, GAUGE], [counter(-140, 0), counter(101, 300), counter(110, 309), gauge(-230, 4)])
    assert [(row["quantity"], row["window"], row["value"], row["covered_ns"]) for row in rows] == [
        ("running_requests", 0, 4, 10 * S), ("prompt_tokens", 1, 9, 9 * S),
    ]  # fmt: skip


def test_a_gauge_is_weighed_by_time_and_its_peak_is_kept(store: Store) -> None:
    rows = measured(store, [GAUGE], [gauge(0, 2), gauge(45, 10), gauge(60, None), gauge(90, 1)])
    assert [(row["window"], row["value"], row["peak"], row["covered_ns"]) for row in rows] == [
        (0, 4, 10, 60 * S), (1, 1, 1, 30 * S), (2, 1, 1, 60 * S),
    ]  # fmt: skip


def test_series_beside_each_other_add_up_and_one_after_the_other_do_not(store: Store) -> None:
    beside = [gauge(0, 3, series=1), gauge(0, 4, series=2)]
    after = [gauge(60, 5, series=3), gauge(90, None, series=3), gauge(90, 5, series=4)]
    ended = [gauge(60, None, series=1), gauge(60, None, series=2), gauge(120, None, series=4)]
    assert values(measured(store, [GAUGE], beside + after + ended)) == {0: 7, 1: 5}


def test_ratios_of_one_place_have_a_mean(store: Store) -> None:
    ratio = rule("running", "kv_used_ratio", "gauge", combine="mean")
    assert values(measured(store, [ratio], [gauge(0, 0.25, series=1), gauge(0, 0.75, series=2)]))[0] == 0.5


def test_a_rate_is_integrated_whatever_the_exporter_calls_it(store: Store) -> None:
    points = [point("rate", 1, at * S, value, kind=kind) for kind in ("sum_cumulative",) for at, value in [(0, 5.0), (30, 7.0), (60, None)]]
    assert values(measured(store, [RATE], points)) == {0: 30 * 5 + 30 * 7}


def test_ranks_repeat_one_figure_and_engines_do_not_trap_13(store: Store) -> None:
    ranked = rule("tokens_total", "prompt_tokens", "counter", repeated_by=["tp_rank"])
    labels = [{"tp_rank": str(rank), "engine": engine} for engine in "01" for rank in range(4)]
    points = [counter(at, value, series, attributes=named) for series, named in enumerate(labels, 1) for at, value in [(0, 0), (30, 100)]]
    assert values(measured(store, [ranked], points)) == {0: 200}


def test_one_thing_seen_by_several_exporters_counts_once_through_changing_labels(store: Store) -> None:
    energy = rule(
        "tokens_total", "gpu_energy_joules", "counter", of="device", device_keys=["UUID", "uuid"], once_roles=["device"], micro_per_unit=1e3
    )
    points = [
        *(counter(at, at * 1000.0, 1, resource={"e": "1"}, attributes={"UUID": "GPU-1", "pod": "a"}) for at in range(0, 30, 5)),
        *(counter(at, at * 1000.0, 2, resource={"e": "1"}, attributes={"UUID": "GPU-1", "pod": "b"}) for at in range(30, 65, 5)),
        *(counter(at + 1, at * 1000.0, 3, resource={"e": "2"}, attributes={"uuid": "GPU-1"}) for at in range(0, 60, 15)),
        *(counter(at, at * 1000.0, 4, resource={"e": "1"}, attributes={"UUID": ""}) for at in range(0, 60, 15)),
    ]  # fmt: skip
    (row,) = (row for row in measured(store, [energy], points) if row["window"] == 0)
    assert (row["device"], row["value"], row["replica"]) == ("GPU-1", 60.0, "")


def test_of_metrics_that_tell_one_quantity_the_first_counts_per_place(store: Store) -> None:
    older = rule("old", "prompt_tokens", "counter", rank=1)
    other = {"resource": {"service.name": "other"}}
    points = [
        counter(0, 0), counter(30, 10), point("old", 1, 0, 0), point("old", 1, 30 * S, 10),
        point("old", 3, 0, 0, **other), point("old", 3, 30 * S, 4, **other),
    ]  # fmt: skip
    rows = measured(store, [COUNTER, older], points)
    assert [(row["replica"], row["value"], row["source"]) for row in rows] == [("engine", 10, "tokens_total"), ("other", 4, "old")]


def test_replicas_come_from_the_inventory_as_those_of_spans_do(store: Store) -> None:
    held_from = {"config_hash": "c", "from_ns": 0, "to_ns": 2**62}
    store.insert_rows("inventory", [
        held_from | {"replica": "r0", "match": {"service.name": "engine", "k8s.pod.name": "pod-0"}},
        held_from | {"replica": "r-any", "match": {"service.name": "engine"}, "to_ns": T + WINDOW},
    ])  # fmt: skip
    points = [counter(at, at, series, attributes={"pod": f"pod-{series}"}) for series in (0, 1) for at in (0, 30, 60, 90)]
    rows = measured(store, [COUNTER], points)
    assert [(row["window"], row["replica"]) for row in rows] == [(0, "r-any"), (0, "r0"), (1, "pod-1"), (1, "r0")]


def test_only_the_platform_says_what_machines_did(store: Store) -> None:
    assert measured(store, [COUNTER], [counter(at, at, principal="tenant/acme") for at in (0, 30)]) == []


def test_histograms_give_their_sum_or_count(store: Store) -> None:
    asked = [rule("h", "kv_transfer_bytes", "counter", reads="sum"), rule("h", "finished_requests", "counter", rank=1, reads="count")]
    points = [point("h", 1, at * S, None, kind="histogram_cumulative", sum=at * 2.5, count=at) for at in (0, 20)]
    assert {row["quantity"]: row["value"] for row in measured(store, asked, points)} == {"kv_transfer_bytes": 50, "finished_requests": 20}


@pytest.mark.parametrize("value", [float("1e300"), -5.0, 0.0])
def test_absurd_values_break_nothing(store: Store, value: float) -> None:
    points = [counter(0, 1), counter(10, value), counter(20, 3), *(gauge(at, 1e17) for at in range(0, 180, 5))]
    rows = measured(store, [COUNTER, GAUGE], points)
    assert {row["value"] for row in rows if row["quantity"] == "running_requests"} == {1e17}


def test_many_points_are_taken_a_few_quantities_at_a_time(store: Store) -> None:
    points = [one for at in (0, 20, 40) for one in (counter(at, at), gauge(at, 5), point("rate", 1, at * S, 2.0))]
    found = measured(store, [COUNTER, GAUGE, RATE], points)
    assert len(found) == 7
    measure(store, scope(), points_per_statement=4)
    rows = store.query("SELECT * EXCEPT (window_from, run_id) FROM work_measures ORDER BY ALL").rows
    assert sorted(rows) == sorted(tuple(value for name, value in row.items() if name != "window") for row in found)


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [([], []), ([("a", 9)], [["a"]]), ([("a", 2), ("b", 3), ("c", 1), ("d", 9), ("e", 1)], [["a", "b"], ["c"], ["d"], ["e"]])],
)
def test_quantities_share_a_statement_within_the_limit(sizes: list[tuple[str, int]], groups: list[list[str]]) -> None:
    assert together(sizes, 5) == groups


def test_no_samples_leave_nothing_of_the_last_run(store: Store) -> None:
    assert measured(store, [COUNTER], [counter(0, 1), counter(9, 2)])
    store.command("TRUNCATE TABLE samples")
    measure(store, scope())
    assert store.query("SELECT count() FROM work_measures").scalar() == 0


def scraped_at(*times_ns: int) -> bytes:
    request = ExportMetricsServiceRequest()
    block = request.resource_metrics.add()
    block.resource.attributes.add(key="service.name").value.string_value = "engine"
    metric = block.scope_metrics.add().metrics.add(name="tokens_total").sum
    metric.aggregation_temporality = 2
    for at_ns in times_ns:
        metric.data_points.add(time_unix_nano=at_ns, as_int=(at_ns - T) // S + 1000)
    return request.SerializeToString()


@pytest.mark.parametrize(("at_s", "cells"), [(450, [0]), (239, [-1, 0]), (240, [0]), (659, [0]), (660, [0, 1]), (0, [-1, 0])])
def test_points_touch_the_windows_within_four_minutes_of_them(store: Store, at_s: int, cells: list[int]) -> None:
    ingest(store, [scraped_at(T + at_s * S, T + at_s * S)], signal="metrics", received_ns=T + at_s * S)
    found = store.query("SELECT toInt64(toUnixTimestamp(window_from)), spans, topic FROM arrivals ORDER BY window_from").rows
    assert found == tuple((T // S + 900 * cell, 0, "otlp_metrics") for cell in cells)


def test_points_whose_time_is_refused_touch_no_window(store: Store) -> None:
    ingest(store, [scraped_at(T + 2 * 3600 * S), scraped_at()], signal="metrics", received_ns=T)
    assert store.query("SELECT count() FROM arrivals").scalar() == 0


def test_a_run_publishes_its_measures_and_late_points_make_another(store: Store) -> None:
    def attribute() -> str:
        def nothing(store: Store, scope: Scope) -> None: ...

        settings = AttributionSettings(window_seconds=60, grace_seconds=10)
        return run(store, settings, "c", T, T + 2 * WINDOW, clock=lambda: T + 3600 * S, assemble=nothing).state

    def seen() -> tuple[tuple[Any, ...], ...]:
        sql = "SELECT value, covered_ns FROM measures INNER JOIN current_runs USING (window_from, run_id) ORDER BY window_from"
        return store.query(sql).rows

    store.insert_rows("metric_rules", [COUNTER])
    ingest(store, [scraped_at(*range(T, T + 31 * S, 15 * S))], signal="metrics", received_ns=T + WINDOW)
    assert (attribute(), seen()) == ("published", ((30, 30 * S),))
    assert (attribute(), seen()) == ("unchanged", ((30, 30 * S),))
    ingest(store, [scraped_at(*range(T, T + 91 * S, 15 * S))], signal="metrics", received_ns=T + 3 * WINDOW, first_offset=1)
    assert (attribute(), seen()) == ("published", ((60, 60 * S), (30, 30 * S)))
    assert store.query("SELECT uniqExact(run_id) FROM measures").scalar() == 2


TIMES = st.integers(-400, 60 * WINDOWS + 350).map(lambda half: half * S + (half % 7) * 1000)


@st.composite
def stories(draw: st.DrawFn, delta: bool) -> list[Point]:
    """Points of one series: rising mostly, with restarts, gaps, missing values and starts that are told, or not."""
    value, start, found = float(draw(st.integers(0, 50))), draw(st.sampled_from([0, T - 350 * S, T - 20 * S])), []
    for at in sorted(draw(st.sets(TIMES, min_size=1, max_size=12))):
        if draw(st.integers(0, 5)) == 0:
            value = 0.0
            start = T + at - draw(st.integers(0, 40)) * S if draw(st.booleans()) else 0
        value += draw(st.integers(0, 40))
        found.append(Point(T + at, None if draw(st.integers(0, 9)) == 0 else value, start, delta))
    return found


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=st.sampled_from(["counter", "delta", "gauge"]), seed=st.integers(0, 99))
def test_any_story_reads_as_the_oracle_reads_it(store: Store, data: st.DataObject, kind: str, seed: int) -> None:
    empty(store)
    streams = data.draw(st.lists(stories(kind == "delta"), min_size=1, max_size=3))
    stored = {"counter": "sum_cumulative", "delta": "sum_delta", "gauge": "gauge"}[kind]
    points = [
        point("m", number, one.at_ns - T, one.value, kind=stored, start_ns=one.start_ns - T if one.start_ns else None)
        for number, stream in enumerate(streams)
        for one in stream
    ]
    points += random.Random(seed).choices(points, k=3)
    random.Random(seed).shuffle(points)
    asked = rule("m", "kv_used_ratio" if kind == "gauge" else "prompt_tokens", "gauge" if kind == "gauge" else "counter", combine="mean")
    rows = {row["window"]: row for row in measured(store, [asked], points)}
    for window in range(WINDOWS):
        at = T + window * WINDOW
        if kind == "gauge":
            parts = [read[at] for stream in streams if at in (read := held([replace(one, start_ns=0) for one in stream], WINDOW))]
            known = sum(part[1] for part in parts)
            expected = sum(part[0] for part in parts) / known if known else None
            assert (rows[window]["peak"] if known else None) == max((part[2] for part in parts), default=None)
        else:
            sums = [read[at] for stream in streams if at in (read := counted(stream, WINDOW))]
            expected = sum(sums) if sums else None
        assert (window in rows) == (expected is not None)
        if expected is not None:
            assert rows[window]["value"] == pytest.approx(float(expected), abs=1e-4)
    alone = {}
    for window in range(WINDOWS):  # a window run by itself says what it says in a longer run
        measure(store, scope(window, window + 1))
        alone |= dict(store.query("SELECT {window:UInt8}, value FROM work_measures", {"window": window}).rows)
    assert alone == {window: row["value"] for window, row in rows.items()}
