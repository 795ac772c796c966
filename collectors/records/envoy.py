"""Envoy AI Gateway's access log as JSON: one row a request. The operator chooses its fields; those of the project's example are read.

Numbers are strings, missing ones `-`. `gen_ai.provider.name` holds the name of the backend. A CEL cost is a count of units, no money.
"""

from collectors.records.call import Call, Context, IsContent, NotACall, NotARecord
from collectors.records.fields import Row, Scalar, duration_ns, flat, text, time_ns, trace_of

MS = 1_000_000
ON_REQUEST = frozenset(
    {
        "x-request-id", "x_request_id", "request_id", "tenant.id", "x-tenant-id", "tokenpath.tenant.id", "session.id", "agent-session-id",
        "gen_ai.request.model", "gen_ai.original.model", "error.type",
        "http.response.status_code", "tokenpath.client.disconnected", "response_flags", "method", "path",
    }
)  # fmt: skip
REQUEST_IDS = ("x-request-id", "x_request_id", "request_id")
CLIENT_LEFT = frozenset({"DC", "DR"})  # response flags: downstream connection terminated, downstream remote reset
# What the gateway answered itself: nothing healthy, no route, rate limited, denied by authorisation.
NOT_ASKED = frozenset({"UH", "NR", "NC", "RL", "UAEX", "DPE", "UMSDR", "RLSE"})


def recognises(row: Row) -> bool:
    return "start_time" in row and "response_code" in row and "duration" in row


def call(row: Row, is_content: IsContent) -> Call:
    started_ns, lasted_ns = time_ns(row, "start_time"), duration_ns(row, "duration", MS)
    if started_ns is None or lasted_ns is None:
        name = "start_time" if started_ns is None else "duration"
        raise NotARecord(f"{name} is {row.get(name)!r}, no {'time' if started_ns is None else 'number of milliseconds'}")
    attributes = flat(row, is_content)
    if not any(key.startswith(("gen_ai.", "llm_")) for key in row):
        raise NotARecord("no gen_ai.* field: the access log of Envoy AI Gateway needs them in its format to be of use here")
    if not text(row, "gen_ai.request.model", "gen_ai.original.model", "gen_ai.response.model"):
        raise NotACall("no model asked")
    status, flags = text(row, "response_code"), set(text(row, "response_flags").split(","))
    known = status.isdecimal() and 100 <= int(status) <= 599
    left = bool(flags & CLIENT_LEFT)
    derived: dict[str, Scalar] = {}
    if known:
        derived["http.response.status_code"] = int(status)
    if left:
        derived["tokenpath.client.disconnected"] = True
    failed = (known and int(status) >= 400) or (not known and not left)
    if failed and "error.type" not in attributes:
        derived["error.type"] = text(row, "response_code_details") or (status if known else "no_response")
    return Call(
        format="envoy",
        identity=(text(row, *REQUEST_IDS), str(started_ns), str(lasted_ns), status, text(row, "gen_ai.request.model"), *_usage(attributes)),
        started_ns=started_ns,
        ended_ns=started_ns + lasted_ns,
        attributes={**derived, **attributes},
        on_request=ON_REQUEST,
        request=True,
        attempted=_attempted(row, flags, failed),
        failed=failed and not left,
        failure=text(row, "response_code_details"),
        context=Context(*found) if (found := trace_of(row, "traceparent", "trace_id")) else None,
    )


def _usage(attributes: dict[str, Scalar]) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, value in sorted(attributes.items()) if key.startswith(("gen_ai.usage.", "llm_")))


def _attempted(row: Row, flags: set[str], failed: bool) -> bool:
    """Whether a backend was asked: always, but where the gateway refused by itself, or nothing shows a backend."""
    if not failed:
        return True
    return not flags & NOT_ASKED and text(row, "gen_ai.provider.name", "upstream_host", "upstream_cluster") != ""
