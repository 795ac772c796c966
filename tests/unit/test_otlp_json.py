"""OTLP/JSON becomes the protobuf that it stands for."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collectors import wire
from collectors.edge import Accepted, accept
from collectors.wire import Signal
from tests.otlp_bodies import LIMITS, refused, taken


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


def filled(message: Any, depth: int) -> Any:
    """Every field set, as deep as told; of a oneof the last member wins."""
    for number, field in enumerate(message.DESCRIPTOR.fields, start=1):
        if field.message_type is not None:
            if depth:
                target = getattr(message, field.name)
                filled(target.add() if field.is_repeated else target, depth - 1)
            continue
        value: Any = {"string": f"é{number}", "bytes": bytes([number, 255, 254]), "float": number + 0.5, "bool": True, "enum": 1}.get(
            {9: "string", 12: "bytes", 1: "float", 8: "bool", 14: "enum"}.get(field.type, ""), number
        )
        if field.is_repeated:
            getattr(message, field.name).extend([value, value])
        else:
            setattr(message, field.name, value)
    return message


def hex_ids(value: Any) -> Any:
    """protobuf's own JSON with the ids in hex, as OTLP has them."""
    ids = {"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"}
    if isinstance(value, dict):
        return {key: b64decode(member).hex() if key in ids else hex_ids(member) for key, member in value.items()}
    return [hex_ids(member) for member in value] if isinstance(value, list) else value


@pytest.mark.parametrize("signal", ["traces", "metrics"])
@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("numbers", [True, False])
def test_json_that_protobuf_itself_writes_comes_back_whole(signal: Signal, names: bool, numbers: bool) -> None:
    request = filled(wire.OFFICIAL[signal](), 9)
    document = json_format.MessageToDict(request, preserving_proto_field_name=names, use_integers_for_enums=numbers)
    answer = accept(signal, json.dumps(hex_ids(document)).encode(), "json", LIMITS, None)
    assert isinstance(answer, Accepted), answer
    assert wire.OFFICIAL[signal].FromString(answer.value) == request


@pytest.mark.parametrize("value", [
    {"stringValue": ""}, {"intValue": 0}, {"intValue": "-9223372036854775808"}, {"intValue": 5.0}, {"doubleValue": 0}, {"boolValue": False},
    {"doubleValue": "-Infinity"}, {"doubleValue": "1.5"}, {"doubleValue": 7}, {"bytesValue": ""}, {"bytesValue": "-_8"},
    {"arrayValue": {}}, {"arrayValue": {"values": [{}, {"intValue": 1}]}}, {"kvlistValue": {"values": [{"key": "k", "value": {}}]}}, {},
])  # fmt: skip
def test_json_values_are_read_as_protobuf_itself_reads_them(value: dict[str, Any]) -> None:
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": "k", "value": value}]}]}]}]}
    expected = json_format.ParseDict(document, ExportTraceServiceRequest())
    answer = taken(json.dumps(document).encode(), content="json")
    assert ExportTraceServiceRequest.FromString(answer.value) == expected


@pytest.mark.parametrize("value", [
    {"stringValue": 1}, {"intValue": 1.5}, {"intValue": True}, {"intValue": "x"}, {"intValue": 2**63}, {"boolValue": "true"},
    {"doubleValue": []}, {"bytesValue": "a"}, {"arrayValue": []}, {"arrayValue": {"values": [None]}}, "text", 7, [],
])  # fmt: skip
def test_json_of_the_wrong_type_is_junk(value: Any) -> None:
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": "k", "value": value}]}]}]}]}
    assert refused(json.dumps(document).encode(), content="json").reason == "junk"


def test_an_unknown_enum_name_and_null_are_left_out() -> None:
    (span,) = spans_of({"kind": "SPAN_KIND_OF_TOMORROW", "name": None, "traceId": "ab"})
    assert (span.kind, span.name, span.trace_id) == (0, "", b"\xab")


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
