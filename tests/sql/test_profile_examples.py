"""Each stack's spans in the shape of its documentation, with figures of our own, read by the packaged profiles."""

from pathlib import Path
from typing import Any

from pipeline.store.client import Store
from tests.sql.captures import assembled, configure
from tests.sql.spans import Row, span, stored


def read(store: Store, directory: Path, *rows: Row) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    stored(store, list(rows))
    return assembled(store, configure(store, directory))


def trtllm(trace: str, parent: str = "", **more: Any) -> Row:
    facts: dict[str, Any] = {
        "gen_ai__request__id": "42",
        "gen_ai__usage__prompt_tokens": 512,
        "gen_ai__usage__completion_tokens": 32,
        "gen_ai__latency__time_to_first_token": 0.081,
        "gen_ai__latency__e2e": 0.64,
        "gen_ai__latency__time_in_queue": -1,
    }
    return span(
        trace, "engine", "llm_request", 10, 650, parent, scope="tensorrt_llm", resource={"service.name": "trt"}, **{**facts, **more}
    )


def test_a_time_of_minus_one_is_missing_and_zero_is_a_value_trap_5(store: Store, tmp_path: Path) -> None:
    requests, _ = read(store, tmp_path, trtllm("missing"), trtllm("zero", gen_ai__latency__time_in_queue=0, gen_ai__request__id="43"))
    told = {row["response_id"]: (row["queue_ns"], row["input_tokens"], row["output_tokens"], row["ttft_ns"]) for row in requests}
    assert told == {"42": (None, 512, 32, 81_000_000), "43": (0, 512, 32, 81_000_000)}
    assert all("schedule" not in row["stage_ns"] for row in requests if row["response_id"] == "42")


def test_lmcaches_stacked_transfers_last_as_long_as_they_say_trap_9(store: Store, tmp_path: Path) -> None:
    """In a trace of its own, joined to vLLM's request by session_id; two transfers of 6.7 ms at once are drawn one after the other."""
    engine: dict[str, Any] = {
        "gen_ai__request__id": "chatcmpl-7f3c",
        "gen_ai__usage__prompt_tokens": 1536,
        "gen_ai__usage__completion_tokens": 96,
    }
    cache: dict[str, Any] = {"scope": "lmcache_mp.server", "session_id": "chatcmpl-7f3c"}
    requests, _ = read(
        store,
        tmp_path,
        span("engine", "v", "llm_request", 0, 1000, scope="vllm.tracing.otel", resource={"service.name": "vllm-a"}, **engine),
        span("cache", "r", "request", 10, 60, hit_tokens=1024, requested_tokens=1536, **cache),
        span("cache", "m", "mp.retrieve", 10, 60, "r", hit_tokens="1024", **cache),
        span("cache", "t1", "transfer.staging", 10, 30, "m", elapsed_seconds=0.0067, **cache),
        span("cache", "t2", "transfer.staging", 30, 50, "m", elapsed_seconds="0.0067", **cache),
    )
    (request,) = requests
    assert (request["input_tokens"], request["output_tokens"]) == (1536, 96)
    assert request["stage_ns"]["kv_cache"] + request["stage_ns"]["nic"] == 50_000_000
    assert request["stage_ns"]["nic"] == 13_400_000


def test_envoy_ai_gateway_is_read_in_both_conventions_and_tells_the_tenant(store: Store, tmp_path: Path) -> None:
    """One call in each; the figures are equal, so the readings must be. Cached tokens are part of the prompt, reasoning of the answer."""
    shared: dict[str, Any] = {"scope": "envoyproxy/ai-gateway", "tenant__id": "acme", "session__id": "s-17"}
    inference: dict[str, Any] = {
        "openinference__span__kind": "LLM",
        "llm__model_name": "m-x",
        "llm__token_count__prompt": 1536,
        "llm__token_count__completion": 96,
        "llm__token_count__total": 1632,
        "llm__token_count__prompt_details__cache_read": 1024,
        "llm__token_count__completion_details__reasoning": 40,
    }
    convention: dict[str, Any] = {
        "gen_ai__operation__name": "chat",
        "gen_ai__request__model": "m-x",
        "gen_ai__usage__input_tokens": 1536,
        "gen_ai__usage__output_tokens": 96,
        "gen_ai__usage__cache_read__input_tokens": 1024,
        "gen_ai__usage__reasoning__output_tokens": 40,
    }
    requests, attempts = read(
        store,
        tmp_path,
        span("one", "c", "ChatCompletion", 0, 2371, **shared, **inference),
        span("two", "c", "chat m-x", 0, 2371, **shared, **convention),
    )
    told = (
        "tenant",
        "task_id",
        "model",
        "input_uncached_tokens",
        "input_cache_read_tokens",
        "output_text_tokens",
        "output_reasoning_tokens",
    )
    assert [tuple(row[column] for column in told) for row in requests] == [("acme", "s-17", "m-x", 512, 1024, 56, 40)] * 2
    assert {key.partition("/")[0] for row in attempts for key in row["raw_usage"]} == {"gateway"}
