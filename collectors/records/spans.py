"""Calls as an OTLP request, the same bytes for the same calls: what is imported twice is stored once.

request        only of a gateway's record: what the client sees
└─ inference   the record's fields under their own names
   └─ worker   what each worker ran of it, where the record tells that
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collectors.records.call import Call, Leg
from collectors.records.fields import DECODE_SECONDS, Scalar

SCOPE_PREFIX = "tokenpath.record."
NO_SPAN = bytes(8)


def trace_requests(calls: Iterable[tuple[Call, Mapping[str, Scalar]]], max_bytes: int) -> Iterator[bytes]:
    """Calls with their resources, as requests of at most max_bytes; one call that is larger is a request by itself."""
    batch: list[tuple[Call, Mapping[str, Scalar]]] = []
    batch_bytes = 0
    for call, resource in calls:
        size = size_at_most(call, resource)
        if batch and batch_bytes + size > max_bytes:
            yield _serialized(batch)
            batch, batch_bytes = [], 0
        batch.append((call, resource))
        batch_bytes += size
    if batch:
        yield _serialized(batch)


def _serialized(batch: Iterable[tuple[Call, Mapping[str, Scalar]]]) -> bytes:
    return b"".join(
        trace_request([call for call, _ in same], resource).SerializeToString()
        for resource, same in groupby(batch, lambda one: one[1])  # messages one after the other are one message
    )


def size_at_most(call: Call, resource: Mapping[str, Scalar]) -> int:
    """Bytes that a call takes in a request: its attributes, twice where it is a gateway's, and what frames them."""
    of_resource = 64 + _bytes_of(resource)
    of_spans = (1 + call.request) * (256 + _bytes_of(call.attributes) + 2 * len(call.failure))
    return of_resource + of_spans + len(call.legs) * (512 + of_resource)


def _bytes_of(attributes: Mapping[str, Scalar]) -> int:
    return sum(24 + len(key.encode("utf-8", "replace")) + len(str(value).encode("utf-8", "replace")) for key, value in attributes.items())


def trace_request(calls: Iterable[Call], resource: Mapping[str, Scalar]) -> ExportTraceServiceRequest:
    """`resource`: of who wrote the records; without a service.name it is the format's name. Workers are instances of that service."""
    request = ExportTraceServiceRequest()
    for name, of_format in groupby(calls, lambda call: call.format):
        whose = {"service.name": name, **resource}
        top = _block(request, whose, name)
        for call in of_format:
            _add(top, request, whose, call)
    return request


def _add(top: Any, request: ExportTraceServiceRequest, resource: Mapping[str, Scalar], call: Call) -> None:
    ids = _Ids(call)
    above = call.context.span_id if call.context else NO_SPAN
    if call.request:
        kept = call.attributes if not call.attempted else {k: v for k, v in call.attributes.items() if k in call.on_request}
        _span(top.spans.add(), "request", ids, ids.request, above, (call.started_ns, call.ended_ns), Span.SPAN_KIND_SERVER, kept, call)
        above = ids.request
    if not call.attempted:
        return
    kind = Span.SPAN_KIND_CLIENT if call.request else Span.SPAN_KIND_SERVER
    _span(top.spans.add(), "inference", ids, ids.inference, above, (call.started_ns, call.ended_ns), kind, call.attributes, call)
    for number, leg in enumerate(call.legs):
        workers = _block(request, {**resource, "service.instance.id": leg.worker}, call.format)
        times = (leg.started_ns, leg.ended_ns)
        told: dict[str, Scalar] = {"tokenpath.record.id": call.identity[0], **_leg_times(call, leg)}
        if leg.phase:
            told["tokenpath.record.phase"] = leg.phase
        _span(workers.spans.add(), "worker", ids, ids.leg(number), ids.inference, times, Span.SPAN_KIND_SERVER, told, call)


def _leg_times(call: Call, leg: Leg) -> dict[str, Scalar]:
    """Of a worker that ran the whole inference: when its first token came, as the record tells it."""
    decode_s = call.attributes.get(DECODE_SECONDS)
    if leg.phase or not isinstance(decode_s, float):
        return {}
    ran_s = (leg.ended_ns - leg.started_ns) / 1e9
    return {"tokenpath.record.ttft_seconds": max(0.0, round(ran_s - decode_s, 9)), DECODE_SECONDS: decode_s}


class _Ids:
    def __init__(self, call: Call) -> None:
        self._seed = "\0".join((SCOPE_PREFIX + call.format, *call.identity)).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(self._seed).digest()
        self.trace = call.context.trace_id if call.context else digest[:16]
        self.request, self.inference = digest[16:24], digest[24:]

    def leg(self, number: int) -> bytes:
        return hashlib.sha256(self._seed + b"\0leg%d" % number).digest()[:8]


def _block(request: ExportTraceServiceRequest, resource: Mapping[str, Scalar], name: str) -> Any:
    block = request.resource_spans.add()
    _attributes(block.resource.attributes, resource)
    scope_spans = block.scope_spans.add()
    scope_spans.scope.name = SCOPE_PREFIX + name
    return scope_spans


def _span(
    span: Any,
    name: str,
    ids: _Ids,
    span_id: bytes,
    parent: bytes,
    times: tuple[int, int],
    kind: Span.SpanKind.ValueType,
    attributes: Mapping[str, Scalar],
    call: Call,
) -> None:
    span.name, span.trace_id, span.span_id, span.kind = name, ids.trace, span_id, kind
    if parent != NO_SPAN:
        span.parent_span_id = parent
    span.start_time_unix_nano, span.end_time_unix_nano = times
    _attributes(span.attributes, attributes)
    if call.failed:
        span.status.code, span.status.message = Status.STATUS_CODE_ERROR, _text(call.failure)


def _attributes(target: Any, attributes: Mapping[str, Scalar]) -> None:
    for key, value in attributes.items():
        told = target.add(key=_text(key)).value
        if isinstance(value, bool):
            told.bool_value = value
        elif isinstance(value, int):
            told.int_value = value
        elif isinstance(value, float):
            told.double_value = value
        else:
            told.string_value = _text(value)


def _text(value: str) -> str:
    """Without halves of surrogate pairs, which JSON may hold and protobuf may not."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()
