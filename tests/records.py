"""Records of each format as their stacks write them, made up, with figures to check by hand. Times begin at 2026-09-21T14:13:20Z."""

import copy
import json
from collections.abc import Mapping
from typing import Any

EPOCH_S = 1_790_000_000
DYNAMO: dict[str, Any] = {
    "schema": "dynamo.request.trace.v1",
    "event_type": "request_end",
    "event_time_unix_ms": 1790000002100,
    "event_source": "dynamo",
    "agent_context": {"session_id": "s-17:worker"},
    "request": {
        "request_id": "d-88",
        "x_request_id": "gw-88",
        "model": "m-x",
        "input_tokens": 4096,
        "output_tokens": 128,
        "cached_tokens": 3072,
        "request_received_ms": 1790000000000,
        "prefill_wait_time_ms": 14.0,
        "prefill_time_ms": 96.0,
        "ttft_ms": 110.0,
        "total_time_ms": 2100.0,
        "avg_itl_ms": 15.67,
        "kv_hit_rate": 0.75,
        "kv_transfer_estimated_latency_ms": 8.5,
        "queue_depth": 2,
        "worker": {"prefill_worker_id": 1, "prefill_dp_rank": 0, "decode_worker_id": 7, "decode_dp_rank": 0},
        "replay": {"input_sequence_hashes": [18446744073709551557, 3]},  # beyond 2^63
    },
}
SGLANG: dict[str, Any] = {
    "request_parameters": json.dumps(
        {
            "rid": "9b1e77aa42", "text": "SECRET prompt", "input_ids": [1, 2, 3], "stream": True,
            "sampling_params": {"max_new_tokens": 64, "n": 1}, "bootstrap_room": None,
        }
    ),
    "id": "9b1e77aa42",
    "finish_reason": {"type": "length", "length": 64},
    "prompt_tokens": 2048,
    "completion_tokens": 64,
    "reasoning_tokens": 16,
    "cached_tokens": 1024,
    "cached_tokens_details": {"device": 768, "host": 256},
    "request_received_ts": 1790000000.25,
    "api_server_dispatch_finish_ts": 1790000000.262,
    "response_sent_to_client_ts": 1790000001.829,
    "request_finished_ts": 1790000001.83,
    "queue_time": 0.09,
    "forward_entry_time": 1790000000.36,
    "prefill_finished_time": 1790000000.54,
    "first_token_latency": 0.3,
    "decode_throughput": 49.2,
    "e2e_latency": 1.58,
}  # fmt: skip
LITELLM: dict[str, Any] = {
    "id": "chatcmpl-7f3c",
    "trace_id": "3f0e5a6e-0000-4000-8000-000000000001",
    "session_id": "s-17",
    "litellm_call_id": "5b0d",
    "call_type": "acompletion",
    "stream": True,
    "response_cost": 0.00184,
    "cost_breakdown": {"input_cost": 0.00064, "output_cost": 0.00096, "total_cost": 0.00184},
    "status": "success",
    "custom_llm_provider": "openai",
    "total_tokens": 1632,
    "prompt_tokens": 1536,
    "completion_tokens": 96,
    "startTime": 1790000000.0,
    "endTime": 1790000002.366,
    "completionStartTime": 1790000000.47,
    "response_time": 0.47,
    "model_map_information": {"model_map_key": "gpt-x", "model_map_value": {"input_cost_per_token": 4.2e-07}},
    "model": "gpt-x-2026-08-06",
    "model_id": "dep-1",
    "model_group": "gpt-x",
    "api_base": "http://vllm-a:8000/v1",
    "cache_hit": False,
    "saved_cache_cost": 0.0,
    "request_tags": ["prod"],
    "end_user": "",
    "metadata": {
        "user_api_key_hash": "88dc",
        "user_api_key_team_id": "team-red",
        "user_api_key_org_id": None,
        "usage_object": {
            "prompt_tokens": 1536,
            "completion_tokens": 96,
            "total_tokens": 1632,
            "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": None},
            "completion_tokens_details": {"reasoning_tokens": 32},
        },
    },
    "messages": [{"role": "user", "content": "SECRET prompt"}],
    "response": {"choices": [{"message": {"content": "SECRET answer"}}]},
    "error_str": None,
    "error_information": {"error_code": "", "error_class": "", "error_message": ""},
    "model_parameters": {"temperature": 0.2, "stream": True, "tools": [{"name": "SECRET tool"}]},
    "hidden_params": {"api_base": "http://vllm-a:8000/v1", "litellm_overhead_time_ms": 4.1},
}
SPEND: dict[str, Any] = {  # the same call as the table holds it
    "request_id": "chatcmpl-7f3c",
    "call_type": "acompletion",
    "api_key": "88dc",
    "spend": 0.00184,
    "total_tokens": 1632,
    "prompt_tokens": 1536,
    "completion_tokens": 96,
    "startTime": "2026-09-21 14:13:20.000",
    "endTime": "2026-09-21 14:13:22.366",
    "completionStartTime": "2026-09-21 14:13:20.470",
    "request_duration_ms": 2366,
    "model": "gpt-x-2026-08-06",
    "model_id": "dep-1",
    "model_group": "gpt-x",
    "custom_llm_provider": "openai",
    "user": "u-1",
    "team_id": "team-red",
    "organization_id": None,
    "metadata": json.dumps(LITELLM["metadata"]),
    "cache_hit": "False",
    "request_tags": '["prod"]',
    "session_id": "s-17",
    "status": "success",
    "messages": {},
    "response": {},
    "litellm_call_id": "5b0d",
}
ENVOY: dict[str, Any] = {
    "start_time": "2026-09-21T14:13:20.000Z",
    "response_code": 200,
    "duration": 2371,
    "x-request-id": "gw-88",
    "gen_ai.request.model": "m-x",
    "gen_ai.response.model": "m-x",
    "gen_ai.provider.name": "vllm-pool.default",
    "gen_ai.usage.input_tokens": "1536",
    "gen_ai.usage.output_tokens": "96",
    "gen_ai.usage.reasoning_tokens": "-",
    "x-tenant-id": "acme",
    "session.id": "s-17",
}


def changed(row: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A copy with other values; `a__b` is field b of the object a, and `...` takes the field out."""
    copied: dict[str, Any] = copy.deepcopy(dict(row))
    for path, value in fields.items():
        *outer, name = path.split("__")
        inside = copied
        for step in outer:
            inside = inside[step]
        if value is ...:
            del inside[name]
        else:
            inside[name] = value
    return copied
