"""LiteLLM's StandardLoggingPayload (callbacks) and its table LiteLLM_SpendLogs (as JSON or CSV): one row a call.

- An answer that was not streamed has completionStartTime = endTime, so it has no time to the first token.
- Cached tokens are only inside metadata.usage_object. `cache_hit` is the gateway's own cache of answers and no prompt caching.
- A failed try says 0 tokens although nobody counted any: that is unknown.
- response_cost and spend are list prices and no cost of ours; they are kept apart as `reported_cost`.
- The times and the id of both kinds agree, so that a call of which both are imported is one.
"""

from collections.abc import Mapping
from typing import Any

from collectors.records.call import Call, Context, IsContent, NotARecord
from collectors.records.fields import Row, Scalar, flat, number, opened, text, time_ns, trace_of

TABLE_OBJECTS = ("metadata", "usage_object", "error_information", "cost_breakdown", "hidden_params", "model_parameters")
# Price lists, budgets and rate limits: no facts of this call.
NO_FACTS = frozenset(
    {"model_map_information", "hidden_params.additional_headers", "metadata.model_map_information", "response_cost_failure_debug_info"}
)
ON_REQUEST = frozenset(
    {
        "team_id", "organization_id", "user", "end_user", "session_id", "litellm_call_id", "model_group", "model", "stream", "cache_hit",
        "metadata.user_api_key_team_id", "metadata.user_api_key_org_id", "metadata.user_api_key_user_id", "metadata.user_api_key_hash",
        "metadata.requester_custom_headers.x-request-id", "http.response.status_code", "error.type", "tokenpath.client.disconnected",
        "call_type", "api_key", "request_tags",
    }
)  # fmt: skip
TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens")
DISCONNECTED = "499"


def recognises(row: Row) -> bool:
    if "startTime" not in row or "call_type" not in row:
        return False
    return "spend" in row or "response_cost" in row or "custom_llm_provider" in row


def call(row: Row, is_content: IsContent) -> Call:
    row = opened(row, *TABLE_OBJECTS)
    own_id, call_id = text(row, "id", "request_id"), text(row, "litellm_call_id")
    if not own_id and not call_id:
        raise NotARecord("neither id, request_id nor litellm_call_id: which call it is is not told")
    started_ns, ended_ns = time_ns(row, "startTime"), time_ns(row, "endTime")
    if started_ns is None or ended_ns is None:
        name = "startTime" if started_ns is None else "endTime"
        raise NotARecord(f"{name} is {row.get(name)!r}, no time")
    error = _error(row)
    code = text(error, "error_code", "code")
    disconnected = code == DISCONNECTED or _object(row, "metadata").get("client_disconnected") is True
    failed = text(row, "status") == "failure" and not disconnected
    attributes = flat(row, is_content, NO_FACTS)
    if text(row, "status") == "failure" and not any(number(row, name) for name in TOKENS):
        attributes = {key: value for key, value in attributes.items() if key not in TOKENS and not key.startswith("metadata.usage_object.")}
    derived = _derived(row, started_ns, ended_ns) | _failure(error, code, failed)
    if disconnected:
        derived["tokenpath.client.disconnected"] = True
    return Call(
        format="litellm",
        # A failed try has the id of the whole call, which its other tries have too.
        identity=(own_id or call_id, call_id, str(started_ns) if text(row, "status") == "failure" else ""),
        started_ns=started_ns,
        ended_ns=ended_ns,
        attributes={**derived, **attributes},
        on_request=ON_REQUEST,
        request=True,
        attempted=not failed or not code.startswith("4") or text(row, "api_base", "model_id", "custom_llm_provider") != "",
        failed=failed,
        failure=text(error, "error_class"),
        context=Context(*found) if (found := trace_of(row, "trace_id")) else None,
    )


def _derived(row: Row, started_ns: int, ended_ns: int) -> dict[str, Scalar]:
    derived: dict[str, Scalar] = {}
    first_ns, streamed = time_ns(row, "completionStartTime"), row.get("stream")
    if first_ns is not None and started_ns <= first_ns < ended_ns and streamed is not False:
        derived |= {"gen_ai.response.time_to_first_chunk": (first_ns - started_ns) / 1e9, "gen_ai.request.stream": True}
    elif isinstance(streamed, bool):
        derived["gen_ai.request.stream"] = streamed
    for name in ("response_cost", "spend"):
        if (cost := number(row, name)) is not None:
            return {**derived, "reported_cost": str(cost), "reported_cost.source": f"litellm/{name}"}
    return derived


def _failure(error: Row, code: str, failed: bool) -> dict[str, Scalar]:
    if not failed:
        return {}
    told: dict[str, Scalar] = {"error.type": text(error, "error_class") or code or "failure"}
    if code.isdecimal() and 100 <= int(code) <= 599:
        told["http.response.status_code"] = int(code)
    return told


def _error(row: Row) -> Row:
    """The payload has it at the top, the table inside metadata."""
    return _object(row, "error_information") or _object(_object(row, "metadata"), "error_information")


def _object(row: Row, name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, Mapping) else {}
