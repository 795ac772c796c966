"""OTLP request bodies for tests: few lines for a well-formed one, and the bytes to write one that is not."""

from collections.abc import Mapping

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from pipeline.loading.envelope import varint
from tests.ingest import RECEIVED_NS

START_NS = RECEIVED_NS - 3_600_000_000_000
SECOND_NS = 1_000_000_000


def trace_body(
    number: int, spans: int = 1, name: str = "chat", attributes: Mapping[str, str] | None = None, start_ns: int = START_NS
) -> bytes:
    """A request whose span ids follow from `number`: two bodies of one number are the same spans."""
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    scope = block.scope_spans.add()
    for key, value in (attributes or {}).items():
        block.resource.attributes.add(key=key).value.string_value = value
    for index in range(spans):
        scope.spans.add(
            trace_id=(number + 1).to_bytes(16, "big"),
            span_id=(index + 1).to_bytes(8, "big"),
            name=name,
            start_time_unix_nano=start_ns + number,
            end_time_unix_nano=start_ns + number + SECOND_NS,
        )
    return request.SerializeToString()


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field as it stands on the wire."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def body_of_span(span: bytes) -> bytes:
    """A request with one span of exactly these bytes."""
    return field(1, field(2, field(2, span)))


def raw_span(number: int, *extra: bytes) -> bytes:
    """A well-formed span, written by hand, with more bytes behind it."""
    start = START_NS + number
    return b"".join(
        (
            field(1, (number + 1).to_bytes(16, "big")),
            field(2, b"\0\0\0\0\0\0\0\1"),
            b"\x39" + start.to_bytes(8, "little"),
            b"\x41" + (start + SECOND_NS).to_bytes(8, "little"),
            *extra,
        )
    )
