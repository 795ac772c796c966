"""Spans straight to the bytes of an OTLP request: what the SDK's exporter writes, without the SDK."""

from collections.abc import Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, SpanFlags, Status

from collectors.workload.spans import Kind, SpanData, Value

KINDS: Mapping[Kind, Span.SpanKind.ValueType] = {
    "internal": Span.SPAN_KIND_INTERNAL,
    "server": Span.SPAN_KIND_SERVER,
    "client": Span.SPAN_KIND_CLIENT,
}
HAS_REMOTE = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
REMOTE_PARENT = HAS_REMOTE | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK


def encode(spans: Sequence[SpanData], resources: Mapping[str, Mapping[str, str]], scope: str) -> bytes:
    """One ExportTraceServiceRequest: a ResourceSpans per source in the order of its first span. `resources` by source.
    Messages are filled where they stand, which is twice as fast as making and copying them."""
    request = ExportTraceServiceRequest()
    by_source: dict[str, ScopeSpans] = {}
    for span in spans:
        group = by_source.get(span.source)
        if group is None:
            resource = request.resource_spans.add()
            _fill(resource.resource, resources[span.source])
            group = by_source[span.source] = resource.scope_spans.add()
            group.scope.name = scope
        _add(group, span)
    return request.SerializeToString()


def _add(group: ScopeSpans, span: SpanData) -> None:
    added = group.spans.add(
        trace_id=span.trace_id.to_bytes(16, "big"),
        span_id=span.span_id.to_bytes(8, "big"),
        parent_span_id=span.parent_id.to_bytes(8, "big") if span.parent_id else b"",
        name=span.name,
        kind=KINDS[span.kind],
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        flags=REMOTE_PARENT if span.parent_is_remote else HAS_REMOTE,
    )
    added.status.SetInParent()  # the SDK writes an empty status too
    if span.error is not None:
        added.status.code = Status.STATUS_CODE_ERROR
        added.status.message = span.error
    _fill(added, span.attributes)


def _fill(message: Span | Resource, attributes: Mapping[str, Value]) -> None:
    for key, value in attributes.items():
        into = message.attributes.add(key=key).value
        if isinstance(value, str):
            into.string_value = value
        elif isinstance(value, bool):
            into.bool_value = value
        elif isinstance(value, int):
            into.int_value = value
        elif isinstance(value, float):
            into.double_value = value
        else:
            into.array_value.SetInParent()
            for part in value:
                into.array_value.values.add(string_value=part)
