"""Records that come as OTLP log records: in the attribute `payload` (Dynamo), as the body's JSON or map, or as the attributes (Envoy)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from collectors.records import call_of, format_of
from collectors.records.call import Call, Context, IsContent, NotACall, NotARecord
from collectors.records.fields import Row, Scalar
from collectors.records.spans import trace_requests
from collectors.wire import tolerant

NOT_OURS = "not a per-request record of a serving stack; Tokenpath keeps no other logs"


@dataclass(frozen=True, slots=True)
class Converted:
    """`requests`: OTLP trace requests. `refused`: log records that are not kept, and `why`, for their sender."""

    requests: tuple[bytes, ...]
    kept: int
    refused: int
    why: str


def converted(body: bytes, is_content: IsContent, max_bytes: int) -> Converted:
    """`body`: an ExportLogsServiceRequest that parses. No request has more than max_bytes, but for one with a single larger record."""
    calls: list[tuple[Call, dict[str, Scalar]]] = []
    reasons: list[str] = []
    for record, resource in _log_records(body):
        try:
            calls.append((_call(record, is_content), resource))
        except (NotARecord, NotACall) as error:
            reasons.append(str(error))
    why = f"{len(reasons)} log records are not kept: {reasons[0]}" if reasons else ""
    return Converted(tuple(trace_requests(calls, max_bytes)), len(calls), len(reasons), why)


def _log_records(body: bytes) -> Iterator[tuple[Any, dict[str, Scalar]]]:
    request: Any = tolerant("logs").FromString(body)
    for block in request.resource_logs:
        resource = {key: value for key, value in _map(block.resource.attributes).items() if isinstance(value, str | int | float)}
        for scope in block.scope_logs:
            for record in scope.log_records:
                yield record, resource


def _call(record: Any, is_content: IsContent) -> Call:
    row = next((row for row in _rows(record) if format_of(row)), None)
    if row is None:
        raise NotARecord(NOT_OURS)
    call = call_of(row, is_content)
    if call.context is None and len(record.trace_id) == 16 and any(record.trace_id):
        return replace(call, context=Context(record.trace_id, record.span_id if len(record.span_id) == 8 else bytes(8)))
    return call


def _rows(record: Any) -> Iterator[Row]:
    attributes = _map(record.attributes)
    for told in (attributes.get("payload"), _value(record.body)):
        if isinstance(told, str) and told.lstrip().startswith("{"):
            try:
                told = json.loads(told)
            except (ValueError, RecursionError):
                continue
        if isinstance(told, Mapping):
            yield told
    yield attributes


def _map(pairs: Any) -> dict[str, Any]:
    return {pair.key.decode("utf-8", "replace"): _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value.decode("utf-8", "replace")
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "kvlist_value":
            return _map(value.kvlist_value.values)
        case "array_value":
            return [_value(member) for member in value.array_value.values]
        case _:
            return None
