"""What the spans of a request must be in the store, read with the official protobuf classes: the oracle of the ingest views."""

import base64
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

AHEAD_NS, DAY_NS = 3_600_000_000_000, 86_400_000_000_000
KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUS = ("unset", "ok", "error")


@dataclass(frozen=True)
class Expected:
    """One span as stored. An id is None where it has to be derived; `rejected` is '' for a span of table `spans`."""

    trace_id: bytes | None
    span_id: bytes | None
    parent_span_id: bytes
    name: str
    kind: str
    status_code: str
    status_message: str
    started_ns: int
    ended_ns: int
    duration_ns: int | None
    resource: tuple[tuple[str, str], ...]
    attributes: tuple[tuple[str, str], ...]
    scope_name: str
    events: tuple[tuple[int, str, tuple[tuple[str, str], ...]], ...]
    links: tuple[tuple[bytes, bytes], ...]
    defects: tuple[str, ...]
    rejected: str


def expected_spans(body: bytes, received_ns: int, max_age_days: int = 400) -> list[Expected]:
    """In the order of the message."""
    found = []
    for block in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource, resource_is_cut = texts(block.resource.attributes)
        for scope in block.scope_spans:
            for span in scope.spans:
                found.append(_span(span, resource, resource_is_cut, head(scope.scope.name, 256), received_ns, max_age_days * DAY_NS))
    return found


def _span(
    span: Span, resource: tuple[tuple[str, str], ...], resource_is_cut: bool, scope_name: str, received_ns: int, max_age_ns: int
) -> Expected:
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    rejected = ""
    if not received_ns - max_age_ns <= start <= received_ns + AHEAD_NS:
        rejected = "start_out_of_range"
    elif end > received_ns + AHEAD_NS:
        rejected = "end_out_of_range"
    attributes, is_cut = texts(span.attributes)
    events = []
    for event in span.events[:128]:
        inner, inner_is_cut = texts(event.attributes)
        at = event.time_unix_nano
        fits = received_ns - max_age_ns <= at <= received_ns + AHEAD_NS
        events.append((at if fits else start, head(event.name, 256), inner))
        is_cut = is_cut or inner_is_cut or _size(event.name) > 256
    links = tuple((link.trace_id, link.span_id) for link in span.links if len(link.trace_id) == 16 and len(link.span_id) == 8)[:128]
    trace_id = span.trace_id if len(span.trace_id) == 16 and any(span.trace_id) else None
    span_id = span.span_id if len(span.span_id) == 8 and any(span.span_id) else None
    is_cut = (
        is_cut
        or resource_is_cut
        or _size(span.name) > 256
        or _size(span.status.message) > 1024
        or _size(span.trace_state) > 512
        or len(links) != len(span.links)
        or len(span.events) > 128
    )
    defects = {
        "derived_id": trace_id is None or span_id is None,
        "end_before_start": 0 < end < start,
        "no_end": end == 0,
        "cut": is_cut,
    }
    return Expected(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=span.parent_span_id if len(span.parent_span_id) == 8 else bytes(8),
        name=head(span.name, 256),
        kind=KINDS[span.kind] if 0 <= span.kind <= 5 else KINDS[0],
        status_code=STATUS[span.status.code] if 0 <= span.status.code <= 2 else STATUS[0],
        status_message=head(span.status.message, 1024),
        started_ns=start,
        ended_ns=end,
        duration_ns=end - start if end >= start else None,
        resource=resource,
        attributes=attributes,
        scope_name=scope_name,
        events=tuple(events),
        links=links,
        defects=tuple(sorted(name for name, is_so in defects.items() if is_so)),
        rejected=rejected,
    )


def texts(pairs: Iterable[KeyValue]) -> tuple[tuple[tuple[str, str], ...], bool]:
    """Attributes as the store has them, of one key the first; whether something was cut."""
    found: dict[str, str] = {}
    is_cut, number = False, 0
    for number, pair in enumerate(pairs, 1):
        value = text(pair.value)
        is_cut = is_cut or _size(pair.key) > 256 or _size(value) > 16_384
        if number <= 128:
            found.setdefault(head(pair.key, 256), head(value, 16_384))
    return tuple(sorted(found.items())), is_cut or number > 128


def text(value: AnyValue) -> str:
    match value.WhichOneof("value"):
        case "array_value":
            return "[" + ",".join(_json(one) for one in value.array_value.values) + "]"
        case "kvlist_value":
            return "{" + ",".join(f"{_quoted(pair.key)}:{_json(pair.value)}" for pair in value.kvlist_value.values) + "}"
        case _:
            return _scalar(value)


def _scalar(value: AnyValue) -> str:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return "true" if value.bool_value else "false"
        case "int_value":
            return str(value.int_value)
        case "double_value":
            return _double(value.double_value)
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
        case _:
            return ""


def _json(value: AnyValue) -> str:
    match value.WhichOneof("value"):
        case "string_value":
            return _quoted(value.string_value)
        case "bytes_value":
            return '"' + _scalar(value) + '"'
        case "double_value":
            return _double(value.double_value) if math.isfinite(value.double_value) else "null"
        case "bool_value" | "int_value":
            return _scalar(value)
        case _:
            return "null"


def _double(value: float) -> str:
    """Shortest digits that read back as the same number; positional from 1e-6 up to 1e21."""
    if not math.isfinite(value):
        return str(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent
    if text == "0":
        shown = "0"
    elif not -6 < point <= 21:
        shown = text[0] + ("." + text[1:] if len(text) > 1 else "") + f"e{point - 1}"
    elif point <= 0:
        shown = "0." + "0" * -point + text
    elif point >= len(text):
        shown = text + "0" * (point - len(text))
    else:
        shown = text[:point] + "." + text[point:]
    return "-" * sign + shown


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def head(value: str, size: int) -> str:
    """The first `size` bytes; a character that is cut in two becomes a replacement character."""
    return value.encode()[:size].decode("utf-8", "replace")


def _size(value: str) -> int:
    return len(value.encode())


def same_text(stored: str, expected: str) -> bool:
    """JSON is compared by what it says, since there is more than one way to escape a string."""
    if stored == expected:
        return True
    try:
        return bool(expected[:1] in "[{" and json.loads(stored) == json.loads(expected))
    except ValueError:
        return False
