"""OTLP bodies for tests, and the answers of the edge to them."""

from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.content import ContentFilter, content_keys
from collectors.edge import Accepted, Content, Limits, Refused, accept
from collectors.wire import Signal
from schemas.keys import Identity

LIMITS = Limits(body_bytes=4_194_304, items=50_000, elements=400_000)
FILTER = ContentFilter(content_keys())
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
