from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, AGGREGATION_TEMPORALITY_DELTA, Metric

from pipeline.store.client import Store
from tests.conftest import empty
from tests.ingest import RECEIVED_NS, ingest
from tests.oracle.otlp_spans import AHEAD_NS, DAY_NS, texts

AT_NS = RECEIVED_NS - 5
KINDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")


def points(body: bytes) -> list[tuple[Metric, Any]]:
    """Every data point with its metric, as the official classes read them."""
    request = ExportMetricsServiceRequest.FromString(body)
    found = []
    for block in request.resource_metrics:
        for scope in block.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                found += [(metric, point) for point in (getattr(metric, kind).data_points if kind else ())]
    return found


def test_captures_of_real_software_become_the_samples_that_the_official_classes_read(store: Store, shared_data: Path) -> None:
    bodies = [path.read_bytes() for path in sorted(shared_data.glob("otlp/*/*metrics.binpb"))]
    ingest(store, bodies, signal="metrics")
    columns = "log_offset, metric, toUnixTimestamp64Nano(at), coalesce(value, value_int), count, sum, bounds, bucket_counts"
    stored = store.query(f"SELECT {columns}, arraySort(arrayZip(mapKeys(attributes), mapValues(attributes))) FROM samples").rows
    expected = []
    for offset, body in enumerate(bodies):
        for metric, point in points(body):
            attributes = list(texts(point.attributes)[0])
            if metric.WhichOneof("data") == "histogram":
                values = (None, point.count, point.sum, list(point.explicit_bounds), list(point.bucket_counts))
            else:
                values = (getattr(point, point.WhichOneof("value")), None, None, [], [])
            expected.append((offset, metric.name, point.time_unix_nano, *values, attributes))
    assert len(expected) > 100
    assert sorted(map(repr, stored)) == sorted(map(repr, expected))


def test_each_kind_of_metric_keeps_what_it_says(store: Store) -> None:
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    gauge = scope.metrics.add(name="gauge", unit="1").gauge
    gauge.data_points.add(time_unix_nano=AT_NS, as_int=0)
    gauge.data_points.add(time_unix_nano=AT_NS + 1)
    delta = scope.metrics.add(name="delta").sum
    delta.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
    delta.data_points.add(time_unix_nano=AT_NS, as_double=1.5, start_time_unix_nano=AT_NS - 7)
    total = scope.metrics.add(name="total").sum
    total.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    total.data_points.add(time_unix_nano=AT_NS, as_int=-(2**63))
    histogram = scope.metrics.add(name="histogram").histogram
    histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
    histogram.data_points.add(time_unix_nano=AT_NS, count=3, explicit_bounds=[1.0], bucket_counts=[1, 2])
    exponential = scope.metrics.add(name="exponential").exponential_histogram
    exponential.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    point = exponential.data_points.add(time_unix_nano=AT_NS, count=7, sum=9.5, scale=0, zero_count=1)
    point.positive.offset, point.negative.offset = 0, 1
    point.positive.bucket_counts.extend([2, 3])
    point.negative.bucket_counts.extend([1])
    summary = scope.metrics.add(name="summary").summary.data_points.add(time_unix_nano=AT_NS, count=3, sum=1.5)
    summary.quantile_values.add(quantile=0.99, value=7)
    ingest(store, [request.SerializeToString()], signal="metrics")
    columns = "metric, toString(kind), value, value_int, count, sum, bounds, bucket_counts, attributes"
    assert store.query(f"SELECT {columns} FROM samples ORDER BY metric, at, value").rows == (
        ("delta", "sum_delta", 1.5, None, None, None, [], [], {}),
        ("exponential", "exponential_histogram_cumulative", None, None, 7, 9.5, [-4.0, -2.0, 1.0, 2.0, 4.0], [0, 1, 1, 2, 3, 0], {}),
        ("gauge", "gauge", None, 0, None, None, [], [], {}),
        ("gauge", "gauge", None, None, None, None, [], [], {}),
        ("histogram", "histogram_delta", None, None, 3, None, [1.0], [1, 2], {}),
        ("summary", "summary", 7.0, None, None, None, [], [], {"quantile": "0.99"}),
        ("summary", "summary", None, None, 3, 1.5, [], [], {}),
        ("total", "sum_cumulative", None, -(2**63), None, None, [], [], {}),
    )
    starts = dict(store.query("SELECT metric, toUnixTimestamp64Nano(start_at) FROM samples WHERE metric IN ('delta', 'total')").rows)
    assert starts == {"delta": AT_NS - 7, "total": 0}


def test_a_point_without_a_recorded_value_has_none_of_any_kind(store: Store) -> None:
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    for kind in KINDS:
        point = getattr(scope.metrics.add(name=kind), kind).data_points.add(time_unix_nano=AT_NS, flags=1)
        if kind == "summary":
            point.quantile_values.add(quantile=0.5)
    ingest(store, [request.SerializeToString()], signal="metrics")
    told = "value IS NOT NULL OR value_int IS NOT NULL OR count IS NOT NULL OR sum IS NOT NULL"
    assert store.query(f"SELECT countIf({told}), uniqExact(metric) FROM samples").rows == ((0, len(KINDS)),)


def test_a_series_is_its_resource_scope_and_attributes_in_any_order(store: Store) -> None:
    request = ExportMetricsServiceRequest()
    for keys in (("a", "b"), ("b", "a"), ("a", "c")):
        block = request.resource_metrics.add()
        block.resource.attributes.add(key="service.name").value.string_value = "engine"
        point = block.scope_metrics.add().metrics.add(name="m").gauge.data_points.add(time_unix_nano=AT_NS, as_int=1)
        for key in keys:
            point.attributes.add(key=key).value.string_value = key
    ingest(store, [request.SerializeToString()], signal="metrics")
    assert store.query("SELECT count(), uniqExact(series_id) FROM samples FINAL").rows == ((2, 2),)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    request = ExportMetricsServiceRequest()
    times = st.sampled_from([0, AT_NS, RECEIVED_NS + AHEAD_NS, RECEIVED_NS + AHEAD_NS + 1, RECEIVED_NS - 401 * DAY_NS, 2**63, 2**64 - 1])
    counts = st.lists(st.integers(0, 2**64 - 1), max_size=3)
    for number in range(draw(st.integers(0, 4))):
        metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name=f"m{number}", unit=draw(st.text(max_size=3)))
        kind = draw(st.sampled_from(KINDS))
        for _ in range(draw(st.integers(0, 3))):
            point = getattr(metric, kind).data_points.add(time_unix_nano=draw(times), start_time_unix_nano=draw(times))
            point.flags = draw(st.sampled_from([0, 1, 2**32 - 1]))
            point.attributes.add(key=draw(st.text(max_size=2))).value.double_value = draw(st.floats())
            if kind in ("gauge", "sum"):
                point.as_double = draw(st.floats())
            else:
                point.count, point.sum = draw(st.integers(0, 2**64 - 1)), draw(st.floats())
            if kind == "histogram":
                point.bucket_counts.extend(draw(counts))
                point.explicit_bounds.extend(draw(st.lists(st.floats(), max_size=3)))
            if kind == "exponential_histogram":
                point.scale = draw(st.sampled_from([-(2**31), -11, 0, 20, 2**31 - 1]))
                for buckets in (point.positive, point.negative):
                    buckets.offset = draw(st.sampled_from([-(2**31), -1, 0, 2**31 - 1]))
                    buckets.bucket_counts.extend(draw(counts))
            if kind == "summary":
                point.quantile_values.add(quantile=draw(st.floats()), value=draw(st.floats()))
    return request.SerializeToString()


@settings(max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies=st.lists(requests(), min_size=1, max_size=6))
def test_each_data_point_of_any_request_lands_in_exactly_one_table(store: Store, bodies: list[bytes]) -> None:
    empty(store)
    ingest(store, bodies, signal="metrics")
    accepted, rejected = set(), []
    for offset, body in enumerate(bodies):
        for number, (metric, point) in enumerate(points(body)):
            if RECEIVED_NS - 400 * DAY_NS <= point.time_unix_nano <= RECEIVED_NS + AHEAD_NS:
                accepted.add((offset, metric.name, point.time_unix_nano))
            else:
                rejected.append((offset, number, metric.name, point.time_unix_nano))
    assert set(store.query("SELECT log_offset, metric, toUnixTimestamp64Nano(at) FROM samples").rows) == accepted
    found = store.query("SELECT log_offset, item_no, metric, time_raw FROM rejected_samples FINAL").rows
    assert sorted(row[:1] + row[2:] for row in found) == sorted(row[:1] + row[2:] for row in rejected)
