"""NVIDIA Dynamo's request trace (`DYN_REQUEST_TRACE`), schema dynamo.request.trace.v1: what its frontend saw, and which workers ran.

Its `ttft_ms` ends with the prefill worker's first token: where the decode runs elsewhere, the KV cache still has to move before the
client sees it. The prefill therefore ends there, and the decode begins.
"""

from collections.abc import Mapping

from collectors.records.call import Call, Context, IsContent, Leg, NotACall, NotARecord
from collectors.records.fields import DECODE_SECONDS, Row, Scalar, duration_ns, flat, text, time_ns, trace_of

SCHEMA = "dynamo.request.trace.v1"
MS = 1_000_000


def recognises(row: Row) -> bool:
    inner = row.get("event")
    return _is_ours(row) or (isinstance(inner, Mapping) and _is_ours(inner))


def _is_ours(row: Row) -> bool:
    return str(row.get("schema", "")).startswith(("dynamo.request.trace.", "dynamo.agent.trace."))


def call(row: Row, is_content: IsContent) -> Call:
    inner = row.get("event")
    if isinstance(inner, Mapping):  # some sinks wrap the row together with their own time
        row = inner
    schema = text(row, "schema")
    if schema != SCHEMA:
        raise NotARecord(f"schema {schema or 'not told'}: only {SCHEMA} is read")
    event = text(row, "event_type")
    if event != "request_end":
        raise NotACall(event or "no event_type")
    request = row.get("request")
    if not isinstance(request, Mapping) or not text(request, "request_id"):
        raise NotARecord("request_end without request.request_id")
    started_ns, total_ns = time_ns(request, "request_received_ms"), duration_ns(request, "total_time_ms", MS)
    if started_ns is None and (ended_ns := time_ns(row, "event_time_unix_ms")) is not None and total_ns is not None:
        started_ns = ended_ns - total_ns
    if started_ns is None or started_ns <= 0:
        raise NotARecord("neither request.request_received_ms nor event_time_unix_ms with request.total_time_ms: when it began is not told")
    if total_ns is None:
        finished_ns = time_ns(row, "event_time_unix_ms")
        if finished_ns is None or finished_ns < started_ns:
            raise NotARecord("neither request.total_time_ms nor event_time_unix_ms: when it ended is not told")
        total_ns = finished_ns - started_ns
    attributes = flat(row, is_content, frozenset({"request.replay"}))
    return Call(
        format="dynamo",
        identity=(text(request, "request_id"), str(started_ns)),
        started_ns=started_ns,
        ended_ns=started_ns + total_ns,
        attributes={**_decode(request, total_ns), **attributes},
        legs=_legs(request, started_ns, total_ns),
        context=Context(*found) if (found := trace_of(request, "traceparent", "trace_id")) else None,
    )


def _decode(request: Row, total_ns: int) -> dict[str, Scalar]:
    first_ns = duration_ns(request, "ttft_ms", MS)
    return {} if first_ns is None or first_ns > total_ns else {DECODE_SECONDS: (total_ns - first_ns) / 1e9}


def _legs(request: Row, started_ns: int, total_ns: int) -> tuple[Leg, ...]:
    """Of the workers that the record names. From the end of the wait for the prefill, which routing and queue are part of."""
    workers = request.get("worker")
    if not isinstance(workers, Mapping):
        return ()
    prefill, decode = _worker(workers, "prefill"), _worker(workers, "decode")
    ended_ns = started_ns + total_ns
    begun_ns = min(started_ns + (duration_ns(request, "prefill_wait_time_ms", MS) or 0), ended_ns)
    first_ns = duration_ns(request, "ttft_ms", MS)
    if prefill and decode and prefill != decode and first_ns is not None:
        handed_ns = max(begun_ns, min(started_ns + first_ns, ended_ns))
        return (Leg("prefill", prefill, begun_ns, handed_ns), Leg("decode", decode, handed_ns, ended_ns))
    one = decode or prefill
    return (Leg("", one, begun_ns, ended_ns),) if one else ()


def _worker(workers: Row, half: str) -> str:
    """A worker's name; its data-parallel rank tells the engines of one worker apart, rank 0 is the worker itself."""
    name, rank = text(workers, f"{half}_worker_id"), text(workers, f"{half}_dp_rank")
    return f"{name}/{rank}" if name and rank not in ("", "0") else name
