"""Spans straight to the bytes of an OTLP request: what the SDK's exporter writes, without the SDK."""

from collections.abc import Iterable, Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, SpanFlags, Status

from collectors.workload.spans import Kind, SpanData, Value

KINDS: Mapping[Kind, Span.SpanKind.ValueType] = {
    "internal": Span.SPAN_KIND_INTERNAL,
    "server": Span.SPAN_KIND_SERVER,
    "client": Span.SPAN_KIND_CLIENT,
}
HAS_REMOTE = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
REMOTE_PARENT = HAS_REMOTE | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK


def encode(spans: Sequence[SpanData], resources: Mapping[str, Mapping[str, str]], scope: str) -> bytes:
    """One ExportTraceServiceRequest: a ResourceSpans per source in the order of its first span. `resources` by source."""
    by_source: dict[str, list[Span]] = {}
    for span in spans:
        by_source.setdefault(span.source, []).append(_span(span))
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=Resource(attributes=_attributes(resources[source].items())),
                scope_spans=[ScopeSpans(scope=InstrumentationScope(name=scope), spans=encoded)],
            )
            for source, encoded in by_source.items()
        ]
    ).SerializeToString()


def _span(span: SpanData) -> Span:
    return Span(
        trace_id=span.trace_id.to_bytes(16, "big"),
        span_id=span.span_id.to_bytes(8, "big"),
        parent_span_id=span.parent_id.to_bytes(8, "big") if span.parent_id else b"",
        name=span.name,
        kind=KINDS[span.kind],
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=_attributes(span.attributes.items()),
        status=Status() if span.error is None else Status(code=Status.STATUS_CODE_ERROR, message=span.error),
        flags=REMOTE_PARENT if span.parent_is_remote else HAS_REMOTE,
    )


def _attributes(pairs: Iterable[tuple[str, Value]]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in pairs]


def _value(value: Value) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=part) for part in value]))
