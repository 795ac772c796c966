"""The pure core of the receivers: what is taken, what is refused, what the log gets."""

import gzip
import json
import tracemalloc
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors import wire
from collectors.edge import COUNTERS as EDGE_COUNTERS
from collectors.edge import Accepted, Edge, Limits, Refused, accept
from collectors.otlp_http import gunzip
from collectors.wire import Signal
from schemas.counters import Counters
from schemas.keys import Identity, Keyring
from schemas.log import LogFull, LogUnavailable, RecordTooLarge
from schemas.settings import ReceiveSettings
from tests.memory_log import MemoryLog
from tests.otlp_bodies import FILTER, LIMITS, PLATFORM, nested, refused, taken, trace_request

# --- bytes stay as they came -----------------------------------------------------------------------------------------------


def test_the_bytes_of_a_good_body_are_untouched() -> None:
    body = trace_request(500).SerializeToString()
    assert taken(body) == Accepted(body, 500, 0)


def test_unknown_fields_are_kept() -> None:
    body = trace_request(2).SerializeToString() + b"\xfa\x3e\x03abc"
    assert taken(body).value == body


def test_an_empty_body_has_nothing_to_store() -> None:
    assert taken(b"").items == 0
    assert taken(b"{}", content="json").items == 0
    assert taken(ExportTraceServiceRequest().SerializeToString()).items == 0


def test_data_points_of_every_kind_are_counted() -> None:
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    metrics.add(name="g").gauge.data_points.add(as_int=1)
    metrics.add(name="s").sum.data_points.add(as_double=1.0)
    metrics.add(name="h").histogram.data_points.add(count=1, bucket_counts=[1, 0], explicit_bounds=[1.0])
    metrics.add(name="e").exponential_histogram.data_points.add(count=1)
    summary = metrics.add(name="q").summary
    summary.data_points.add(count=1)
    summary.data_points.add(count=2)
    body = request.SerializeToString()
    assert taken(body, "metrics") == Accepted(body, 6, 0)


def test_one_bad_utf8_value_does_not_refuse_its_511_neighbours() -> None:
    request = trace_request(512, note="good")
    body = request.SerializeToString().replace(b"good", b"g\xff\xfed", 1)
    with pytest.raises(DecodeError):
        ExportTraceServiceRequest.FromString(body)
    assert taken(body) == Accepted(body, 512, 0)


@pytest.mark.parametrize("place", ["name", "key", "resource"])
def test_bad_utf8_is_taken_wherever_it_is(place: str) -> None:
    request = trace_request(1, mark="x")
    if place == "name":
        request.resource_spans[0].scope_spans[0].spans[0].name = "mark"
    if place == "resource":
        request.resource_spans[0].resource.attributes[0].value.string_value = "mark"
    body = request.SerializeToString().replace(b"mark", b"m\xff\xfek")
    assert taken(body).value == body


# --- junk ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signal", ["traces", "metrics"])
@given(body=st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_random_bytes_are_refused_or_are_a_request(signal: Signal, body: bytes) -> None:
    answer = accept(signal, body, "protobuf", LIMITS, FILTER)
    try:
        wire.tolerant(signal).FromString(body)
    except DecodeError:
        assert isinstance(answer, Refused)
        assert answer.reason == "junk"
    else:
        assert isinstance(answer, Accepted)


@given(cut=st.integers(min_value=1, max_value=10_000), flip=st.integers(min_value=0, max_value=10_000), bit=st.integers(0, 7))
@settings(max_examples=100, deadline=None)
def test_damaged_bodies_get_the_answer_of_the_official_parser(cut: int, flip: int, bit: int) -> None:
    body = bytearray(trace_request(20, k="v").SerializeToString())
    body[flip % len(body)] ^= 1 << bit
    damaged = bytes(body[: 1 + cut % len(body)])
    try:
        parsed: Any = wire.tolerant("traces").FromString(damaged)
    except DecodeError:
        assert refused(damaged).reason == "junk"
    else:
        spans = sum(len(scope_spans.spans) for resource_spans in parsed.resource_spans for scope_spans in resource_spans.scope_spans)
        assert taken(damaged).items == spans


def test_a_truncated_attribute_deep_inside_is_junk() -> None:
    # span > attribute > value > string that claims more bytes than there are; every level outside is right.
    body = nested(b"\x0a", b"\x12", b"\x12", b"\x4a", b"\x12", b"\x0a\x7fabc")
    assert refused(body).reason == "junk"


def test_nesting_beyond_what_protobuf_allows_is_junk_and_does_not_crash() -> None:
    value = b"\x0a\x01x"
    for _ in range(5000):
        value = nested(b"\x2a", b"\x0a", value)
    assert refused(nested(b"\x0a", b"\x12", b"\x12", b"\x4a", b"\x12", value)).reason == "junk"


@given(text=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["resourceSpans", "scopeSpans", "spans", "traceId", "kind", "attributes", "key", "value", "stringValue",
                         "intValue", "arrayValue", "values", "status", "code", "startTimeUnixNano", "links", "x"]), inner, max_size=4),
    max_leaves=20,
))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_any_json_is_taken_or_refused_as_junk(text: Any) -> None:
    answer = accept("traces", json.dumps(text).encode(), "json", LIMITS, FILTER)
    if isinstance(answer, Refused):
        assert answer.reason == "junk"
    else:
        ExportTraceServiceRequest.FromString(answer.value)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"null", b"{", b"[" * 100_000, b'{"resourceSpans":' * 5000, b'{"a":' + b"9" * 5000 + b"}", b'{"resourceSpans": 7}',
    ],
)  # fmt: skip
def test_json_that_is_no_request_is_junk(body: bytes) -> None:
    answer = refused(body, content="json")
    assert answer.reason == "junk"
    answer.message.encode()


# --- limits ----------------------------------------------------------------------------------------------------------------


def test_a_body_at_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    body = trace_request(10).SerializeToString()
    assert taken(body, limits=Limits(len(body), 10, 400_000)).items == 10
    assert refused(body, limits=Limits(len(body) - 1, 10, 400_000)).reason == "too_large"


def test_one_span_too_many_is_refused() -> None:
    body = trace_request(11).SerializeToString()
    assert refused(body, limits=Limits(4_194_304, 10, 400_000)).reason == "too_many_items"


@pytest.mark.parametrize(
    ("what", "tags", "element"),
    [
        ("spans", [b"\x0a", b"\x12"], b"\x12\x00"),
        ("attributes", [b"\x0a", b"\x12", b"\x12"], b"\x4a\x00"),
        ("events", [b"\x0a", b"\x12", b"\x12"], b"\x5a\x00"),
        ("links", [b"\x0a", b"\x12", b"\x12"], b"\x6a\x00"),
        ("scopes", [b"\x0a"], b"\x12\x00"),
        ("resources", [], b"\x0a\x00"),
        ("resource attributes", [b"\x0a", b"\x0a"], b"\x0a\x00"),
        ("array values", [b"\x0a", b"\x12", b"\x12", b"\x4a", b"\x12", b"\x2a"], b"\x0a\x00"),
        ("event attributes", [b"\x0a", b"\x12", b"\x12", b"\x5a"], b"\x1a\x00"),
    ],
)
def test_a_bomb_of_empty_elements_is_refused_before_it_is_decoded(what: str, tags: list[bytes], element: bytes) -> None:
    body = nested(*tags, element * 2_000_000)
    assert len(body) < LIMITS.body_bytes
    assert refused(body).reason == "too_many_items", what


def test_the_count_of_elements_is_that_of_a_full_decode() -> None:
    request = trace_request(3, a="1", b="2")
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.events.add(name="e").attributes.add(key="k")
    span.links.add(trace_id=b"x" * 16)
    for _ in range(3):
        span.attributes[0].value.array_value.values.add(int_value=1)
    # 1 resource, 1 of its attributes, 1 scope, 3 spans, 6 attributes, 3 array values, 1 event, 1 of its attributes, 1 link
    assert wire.count_elements("traces", request.SerializeToString()) == 18
    assert wire.count_items("traces", request.SerializeToString()) == 3


def test_a_json_bomb_is_refused_before_it_is_parsed() -> None:
    body = b'{"resourceSpans":[' + b"{}," * 1_000_000 + b"{}]}"
    tracemalloc.start()
    answer = refused(body, content="json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer.reason == "too_many_items"
    assert peak < 1_000_000


def test_json_that_grows_in_protobuf_is_held_to_the_limit_too() -> None:
    points = {"explicitBounds": [1] * 2000}
    body = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"histogram": {"dataPoints": [points]}}]}]}]}).encode()
    assert refused(body, "metrics", "json", Limits(len(body), 10, 400_000)).reason == "too_large"


def test_gunzip_stops_at_the_limit() -> None:
    limits = Limits(1000, 1, 1)
    assert gunzip(gzip.compress(b"a" * 1000), limits) == b"a" * 1000
    assert gunzip(gzip.compress(b"ab") + gzip.compress(b"cd"), limits) == b"abcd"
    bomb = gzip.compress(bytes(100_000_000))
    tracemalloc.start()
    answer = gunzip(bomb, limits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(answer, Refused)
    assert answer.reason == "too_large"
    assert peak < 1_000_000
    for broken in (b"junk", gzip.compress(b"abc")[:-4], gzip.compress(b"abc") + b"x"):
        answer = gunzip(broken, limits)
        assert isinstance(answer, Refused)
        assert answer.reason == "junk"


# --- with a log ------------------------------------------------------------------------------------------------------------


def edge_with(log: MemoryLog, **receive: Any) -> tuple[Edge, Counters]:
    counters = Counters(EDGE_COUNTERS)
    return Edge(ReceiveSettings(**receive), log, Keyring(()), lambda: 1796075345851365888, counters, "grpc"), counters


def test_an_accepted_body_is_in_the_log_with_its_headers() -> None:
    log = MemoryLog()
    edge, counters = edge_with(log)
    body = trace_request(3).SerializeToString()
    answer = edge.receive("traces", body, "protobuf", Identity("tenant/acme", "acme-1"))
    edge.count("traces", answer)
    assert isinstance(answer, Accepted)
    (record,) = log.records
    assert (record.topic, record.value) == ("otlp_spans", body)
    assert record.headers == {
        "principal": "tenant/acme", "ingest_key": "acme-1", "received_ns": "1796075345851365888", "content": "otlp_proto",
    }  # fmt: skip
    assert counters.value("tokenpath_receiver_bodies_total", result="accepted") == 1
    assert counters.value("tokenpath_receiver_items_total", signal="traces") == 3
    assert counters.value("tokenpath_receiver_bytes_total") == len(body)


def test_empty_and_refused_bodies_never_reach_the_log() -> None:
    log = MemoryLog()
    edge, counters = edge_with(log)
    for body in (b"", b"\xff\xff", b"\x0a\x00"):
        edge.count("traces", edge.receive("traces", body, "protobuf", PLATFORM))
    assert log.attempts == 0
    assert counters.value("tokenpath_receiver_bodies_total", result="empty") == 2
    assert counters.value("tokenpath_receiver_bodies_total", result="junk") == 1


@pytest.mark.parametrize(
    ("error", "reason", "again"),
    [(LogFull("disk"), "log_full", True), (LogUnavailable("broker"), "log_unavailable", True), (RecordTooLarge("1"), "too_large", False)],
)
def test_a_log_that_fails_is_never_an_acceptance(error: Exception, reason: str, again: bool) -> None:
    def fail() -> None:
        raise error

    edge, _ = edge_with(MemoryLog(before_append=fail))
    answer = edge.receive("traces", trace_request().SerializeToString(), "protobuf", PLATFORM)
    assert isinstance(answer, Refused)
    assert answer.reason == reason
    assert (answer.retry_after_s is not None) == again


def test_there_is_a_most_of_bodies_in_flight_and_places_are_given_back() -> None:
    edge, _ = edge_with(MemoryLog(), max_bodies_in_flight=2)
    for _ in range(3):
        with edge.body_in_flight() as first, edge.body_in_flight() as second, edge.body_in_flight() as third:
            assert (first, second) == (None, None)
            assert third is not None
            assert (third.reason, third.retry_after_s) == ("busy", 1)
