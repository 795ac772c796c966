"""The pure core of the receivers: what is taken, what is refused, what is changed on the way."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collectors import wire
from collectors.content import packaged_filter
from collectors.edge import COUNTERS as EDGE_COUNTERS
from collectors.edge import Accepted, Content, Edge, Limits, Refused, accept
from collectors.otlp_http import gunzip
from collectors.wire import Signal
from schemas.counters import Counters
from schemas.keys import Identity, Keyring
from schemas.log import LogFull, LogUnavailable, RecordTooLarge
from schemas.settings import ReceiveSettings
from tests.memory_log import MemoryLog

LIMITS = Limits(body_bytes=4_194_304, items=50_000, elements=400_000)
FILTER = packaged_filter()
PLATFORM = Identity("platform", "")


def trace_request(spans: int = 1, **attributes: str) -> Any:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.add(key="service.name").value.string_value = "vllm-a"
    scope_spans = resource_spans.scope_spans.add()
    for number in range(spans):
        span = scope_spans.spans.add(trace_id=b"t" * 16, span_id=number.to_bytes(8, "big"), name="chat m")
        for key, value in attributes.items():
            span.attributes.add(key=key).value.string_value = value
    return request


def taken(body: bytes, signal: Signal = "traces", content: Content = "protobuf", limits: Limits = LIMITS) -> Accepted:
    answer = accept(signal, body, content, limits, FILTER)
    assert isinstance(answer, Accepted), answer
    return answer


def refused(body: bytes, signal: Signal = "traces", content: Content = "protobuf", limits: Limits = LIMITS) -> Refused:
    answer = accept(signal, body, content, limits, FILTER)
    assert isinstance(answer, Refused), answer
    return answer


def nested(*lengths_first: bytes) -> bytes:
    """The last argument wrapped in the tags before it."""
    *tags, inner = lengths_first
    for tag in reversed(tags):
        inner = tag + varint(len(inner)) + inner
    return inner


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


# --- bytes stay as they came ---------------------------------------------------------------------------------------------


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


# --- junk ----------------------------------------------------------------------------------------------------------------


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


# --- limits --------------------------------------------------------------------------------------------------------------


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
    import gzip

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


# --- JSON ----------------------------------------------------------------------------------------------------------------


def spans_of(document: dict[str, Any]) -> list[Any]:
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [document]}]}]}).encode()
    request = ExportTraceServiceRequest.FromString(taken(body, content="json").value)
    return list(request.resource_spans[0].scope_spans[0].spans)


def test_json_ids_are_hex_in_either_case() -> None:
    (span,) = spans_of({
        "traceId": "4BF92F3577B34DA6A3CE929D0E0E4736", "spanId": "00f067aa0ba902b7", "parentSpanId": "",
        "links": [{"traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "05c3c2e8f19c4868"}],
    })  # fmt: skip
    assert span.trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert span.span_id.hex() == "00f067aa0ba902b7"
    assert span.parent_span_id == b""
    assert span.links[0].span_id.hex() == "05c3c2e8f19c4868"


def test_an_id_that_is_not_hex_does_not_refuse_its_neighbours() -> None:
    (span,) = spans_of({"traceId": "not hex at all", "spanId": "abc"})
    assert span.trace_id == b"not hex at all"
    assert span.span_id == b"abc"


def test_json_takes_numbers_or_strings_names_or_numbers_and_skips_unknown_fields() -> None:
    for value, kind in (("1796075345851365888", "SPAN_KIND_CLIENT"), (1796075345851365888, 3)):
        (span,) = spans_of({
            "startTimeUnixNano": value, "kind": kind, "later": {"x": [1]},
            "attributes": [{"key": "n", "value": {"intValue": value}}, {"key": "b", "value": {"bytesValue": "AAE="}}],
        })  # fmt: skip
        assert span.start_time_unix_nano == 1796075345851365888
        assert span.kind == Span.SpanKind.SPAN_KIND_CLIENT
        assert span.attributes[0].value.int_value == 1796075345851365888
        assert span.attributes[1].value.bytes_value == b"\x00\x01"


def test_json_text_that_is_no_unicode_is_mended() -> None:
    (span,) = spans_of({"name": "a\ud800b\U0001f600", "\ud800": 1})
    assert span.name == "a�b\U0001f600"
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a\xff\xfeb"}]}]}]}'
    request = ExportTraceServiceRequest.FromString(taken(body, content="json").value)
    assert request.resource_spans[0].scope_spans[0].spans[0].name == "a��b"


def test_json_captures_become_the_message_of_their_protobuf_twin(shared_data: Path) -> None:
    pairs = [(path, path.with_name(path.name.replace(".otlp.json", ".binpb"))) for path in sorted(shared_data.glob("otlp/*/*.otlp.json"))]
    pairs = [(text, binary) for text, binary in pairs if "-logs." not in text.name]
    assert len(pairs) > 25
    for text, binary in pairs:
        signal: Signal = "metrics" if "-metrics." in text.name else "traces"
        answer = accept(signal, text.read_bytes(), "json", LIMITS, None)
        assert isinstance(answer, Accepted), (text, answer)
        official = wire.OFFICIAL[signal]
        ours, theirs = (official.FromString(body).SerializeToString(deterministic=True) for body in (answer.value, binary.read_bytes()))
        assert ours == theirs, text


# --- prompts and completions ---------------------------------------------------------------------------------------------

SECRET = "the user's words"
CONTENT_KEYS = [
    "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions", "gen_ai.prompt",
    "gen_ai.prompt.0.content", "gen_ai.completion.1.content", "llm.prompts", "llm.completions.0", "llm.input_messages.0.message.content",
    "llm.output_messages.12.message.content", "input.value", "output.value", "traceloop.entity.input", "traceloop.entity.output",
    "llm.openai.messages", "llm.openai.choices", "llm.openai.stringified_raw_response", "messages", "gen_ai.tool.call.arguments",
]  # fmt: skip
KEPT_KEYS = [
    "gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens", "gen_ai.request.model", "input.mime_type", "message", "content",
    "exception.message", "error.message", "llm.token_count.prompt", "gen_ai.tool.name", "gen_ai.prompts_seen", "messages.count",
    "traceloop.entity.name", "llm.prompt", "http.route",
]  # fmt: skip


@pytest.mark.parametrize("key", CONTENT_KEYS)
def test_content_is_dropped_from_spans_events_links_scopes_and_resources(key: str) -> None:
    request = trace_request(2, kept="yes")
    resource_spans = request.resource_spans[0]
    span = resource_spans.scope_spans[0].spans[1]
    holders = [span, span.events.add(name="e"), span.links.add(), resource_spans.scope_spans[0].scope, resource_spans.resource]
    for holder in holders:
        holder.attributes.add(key=key).value.string_value = SECRET
    answer = taken(request.SerializeToString())
    assert answer.dropped == 5
    assert SECRET.encode() not in answer.value
    left = ExportTraceServiceRequest.FromString(answer.value)
    for holder in holders:
        del holder.attributes[len(holder.attributes) - 1]
    assert left == request


@pytest.mark.parametrize("key", KEPT_KEYS)
def test_what_only_looks_like_content_keeps_its_bytes(key: str) -> None:
    body = trace_request(2, **{key: "gen_ai.input.messages /v1/messages"}).SerializeToString()
    assert taken(body) == Accepted(body, 2, 0)


def test_text_of_genai_message_events_is_dropped_and_an_error_text_is_not() -> None:
    request = trace_request(1)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.events.add(name="gen_ai.user.message").attributes.add(key="content").value.string_value = SECRET
    span.events.add(name="gen_ai.choice").attributes.add(key="message").value.string_value = SECRET
    span.events.add(name="abort").attributes.add(key="message").value.string_value = "Client disconnected"
    answer = taken(request.SerializeToString())
    assert answer.dropped == 2
    assert SECRET.encode() not in answer.value
    assert b"Client disconnected" in answer.value


def test_dropping_keeps_bad_utf8_unknown_fields_and_presence() -> None:
    request = trace_request(1, note="good")
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="zero").value.int_value = 0
    span.attributes.add(key="none")
    before = request.SerializeToString() + b"\xfa\x3e\x03abc"
    span.attributes.add(key="messages").value.string_value = SECRET
    body = request.SerializeToString() + b"\xfa\x3e\x03abc"
    answer = taken(body.replace(b"good", b"g\xff\xfed"))
    assert answer == Accepted(before.replace(b"good", b"g\xff\xfed"), 1, 1)


def test_content_stays_if_the_operator_says_so() -> None:
    body = trace_request(1, **{"gen_ai.input.messages": SECRET}).SerializeToString()
    assert accept("traces", body, "protobuf", LIMITS, None) == Accepted(body, 1, 0)


def test_no_capture_keeps_a_prompt_or_an_answer(shared_data: Path) -> None:
    seen = 0
    for path in sorted(shared_data.glob("otlp/*/*traces.binpb")):
        answer = taken(path.read_bytes())
        seen += answer.dropped
        assert b"one two three" not in answer.value, path
        assert b'"role"' not in answer.value, path
    assert seen > 20


# --- with a log ----------------------------------------------------------------------------------------------------------


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
