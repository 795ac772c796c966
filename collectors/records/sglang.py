"""SGLang's request metrics (`--export-metrics-to-file`): what the engine's tokenizer process knows of a request when it is finished.

Times are there only with `--enable-metrics`. `first_token_latency` and `e2e_latency` begin with the request's arrival, so they contain the
queue. An abort with a status code is an error of the server; one without is what a client gets that left.
"""

import json
from collections.abc import Mapping
from typing import Any

from collectors.records.call import Call, Context, IsContent, NotACall, NotARecord
from collectors.records.fields import DECODE_SECONDS, Row, Scalar, duration_ns, flat, opened, text, time_ns, trace_of

SECOND = 1_000_000_000
HEALTH_CHECK = "HEALTH_CHECK"


def recognises(row: Row) -> bool:
    return "request_parameters" in row and ("prompt_tokens" in row or "request_received_ts" in row)


def call(row: Row, is_content: IsContent) -> Call:
    row = opened(row, "request_parameters")
    asked = row.get("request_parameters")
    parameters: Mapping[str, Any] = asked if isinstance(asked, Mapping) else {}
    rid = text(row, "id") or text(parameters, "rid")
    if not rid:
        raise NotARecord("neither id nor request_parameters.rid: whose record it is is not told")
    if rid.startswith(HEALTH_CHECK):
        raise NotACall("health check")
    started_ns = time_ns(row, "request_received_ts")
    if started_ns is None:
        raise NotARecord("no request_received_ts: SGLang writes times only with --enable-metrics")
    latency_ns = duration_ns(row, "e2e_latency", SECOND)
    ended_ns = time_ns(row, "request_finished_ts") or (None if latency_ns is None else started_ns + latency_ns)
    if ended_ns is None:
        raise NotARecord("neither request_finished_ts nor e2e_latency: when it ended is not told")
    finish = row.get("finish_reason")
    aborted = isinstance(finish, Mapping) and text(finish, "type") == "abort"
    refused = aborted and isinstance(finish, Mapping) and text(finish, "status_code", "err_type") != ""
    derived: dict[str, Scalar] = {"tokenpath.client.disconnected": True} if aborted and not refused else {}
    first_ns = duration_ns(row, "first_token_latency", SECOND)
    if first_ns is not None and started_ns + first_ns <= ended_ns:
        derived[DECODE_SECONDS] = (ended_ns - started_ns - first_ns) / 1e9
        entered_ns = time_ns(row, "forward_entry_time")  # when the scheduler gave it to the GPU
        if entered_ns is not None and started_ns <= entered_ns <= started_ns + first_ns:
            derived["tokenpath.record.prefill_seconds"] = (started_ns + first_ns - entered_ns) / 1e9
    return Call(
        format="sglang",
        identity=(rid, str(started_ns)),
        started_ns=started_ns,
        ended_ns=ended_ns,
        attributes={**derived, **flat(_named(row), is_content)},
        failed=refused,
        failure=text(finish, "message") if refused and isinstance(finish, Mapping) else "",
        context=Context(*found) if (found := _trace(parameters)) else None,
    )


def _named(row: Row) -> dict[str, Any]:
    """A finish reason may be an object, its JSON, or a bare word."""
    finish = row.get("finish_reason")
    return {**row, "finish_reason": {"type": finish}} if isinstance(finish, str) and finish not in ("", "-", "null") else dict(row)


def _trace(parameters: Row) -> tuple[bytes, bytes] | None:
    context = parameters.get("external_trace_header")
    if isinstance(context, str):
        try:
            context = json.loads(context)
        except ValueError:
            return None
    return trace_of(context, "traceparent") if isinstance(context, Mapping) else None
