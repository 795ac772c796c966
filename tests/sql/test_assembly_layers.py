"""One billable row per inference, however many layers and instrumentations tell of it; aggregates never count."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.store.client import Store
from tests.sql.scenarios import World, assembled_world
from tests.sql.spans import Row, client_chat, litellm_chat, litellm_server, span, vllm_request

ROUTER = """
profile = "between"
version = 1

[match]
scope_name = ["between"]

[[span]]
name = "route request"
role = "inference"
layer = "router"
input_tokens = { from = ["in"], includes_cache = true }
output_tokens = { from = ["out"] }
input_cache_read_tokens = { from = ["cached"] }
"""


def agent(trace: str, id: str, name: str, operation: str, start: float, end: float, parent: str = "", **more: Any) -> Row:
    return span(trace, id, name, start, end, parent, scope="agents", gen_ai__operation__name=operation, **more)


SUMS: dict[str, Any] = {
    "gen_ai__usage__input_tokens": 300, "gen_ai__usage__output_tokens": 30, "gen_ai__aggregated_usage__output_tokens": 30
}  # fmt: skip
ROUTED: dict[str, Any] = {"in": 1536, "out": 96, "cached": 1024}
ROWS: list[Row] = [
    # SDK, gateway, router and engine of one call. Only the router tells what was cached, only the engine when the first token came.
    client_chat("all", "sdk", 0, 120, input=1536, output=97),
    litellm_server("all", 5, 110, parent="sdk"),
    litellm_chat("all", "c1", 10, 105, input=1536, output=96),
    span("all", "r1", "route request", 12, 100, "c1", scope="between", **ROUTED),
    vllm_request("all", "v1", 14, 98, "r1", input=1536, output=96, gen_ai__latency__time_to_first_token=0.02),
    # An agent that sums up what its calls used, under both spellings
    agent("agent", "a1", "invoke_agent planner", "invoke_agent", 0, 300, **SUMS),
    agent("agent", "t1", "execute_tool search", "execute_tool", 110, 120, "a1", gen_ai__usage__output_tokens=5),
    client_chat("agent", "c1", 10, 100, "a1", input=100, output=10),
    client_chat("agent", "c2", 130, 290, "a1", input=200, output=20),
    # Two instrumentations of one SDK, one around the other
    span(
        "stacked", "oi", "ChatCompletion", 0, 100, scope="openinference", openinference__span__kind="LLM",
        llm__token_count__prompt=100, llm__token_count__completion=20,
    ),
    client_chat("stacked", "c1", 1, 99, "oi", input=100, output=20),
    # Two instrumentations beside each other; two calls beside each other
    litellm_server("beside", 0, 100),
    client_chat("beside", "c1", 10, 90, "gw", gen_ai__response__id="r"),
    client_chat("beside", "c2", 11, 89, "gw", gen_ai__response__id="r"),
    litellm_server("beside2", 0, 100),
    client_chat("beside2", "c1", 10, 50, "gw", gen_ai__response__id="r"),
    client_chat("beside2", "c2", 60, 89, "gw", gen_ai__response__id="s"),
    litellm_server("record", 0, 100),
    litellm_chat("record", "rc", 9, 91, gen_ai__response__id="r"),
    litellm_chat("record", "c1", 10, 90, gen_ai__response__id="r"),
    vllm_request("record", "v1", 20, 80, "c1"),
    client_chat("split", "sdk", 0, 110),
    litellm_server("split", 5, 100, parent="sdk"),
    vllm_request("split", "v1", 10, 30, "gw", output=1, gen_ai__request__id="x"),
    vllm_request("split", "v2", 31, 90, "gw", resource={"service.name": "d"}, gen_ai__request__id="x"),
    # LiteLLM's work after the answer: a trace of its own
    litellm_server("litellm", 0, 100),
    litellm_chat("litellm", "c1", 10, 90),
    span("detached", "d1", "batch_write_to_db", 120, 160, scope="litellm", litellm__team__id="team-red"),
    span("detached", "d2", "postgres.update_spend", 121, 150, "d1", scope="litellm", litellm__team__id="team-red"),
]  # fmt: skip


@pytest.fixture(scope="module")
def world(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> World:
    directory: Path = tmp_path_factory.mktemp("config")
    (directory / "profiles").mkdir()
    (directory / "profiles" / "between.toml").write_text(ROUTER)
    return assembled_world(engine, ROWS, directory)


def test_sdk_gateway_router_and_engine_are_one_attempt(world: World) -> None:
    """The gateway's final usage bills; what it does not tell comes from the next layer inwards; all counts are kept."""
    attempt = world["all"].attempt
    assert (attempt["input_tokens"], attempt["output_tokens"], attempt["usage_source"]) == (1536, 96, "provider")
    assert (attempt["input_cache_read_tokens"], attempt["input_uncached_tokens"]) == (1024, 512)
    outputs = {"client/gen_ai.usage.output_tokens": 97, "gateway/gen_ai.usage.output_tokens": 96, "router/out": 96}
    assert outputs.items() <= attempt["raw_usage"].items() and attempt["raw_usage"]["engine/gen_ai.usage.completion_tokens"] == 96
    assert "usage_mismatch" in attempt["flags"] and attempt["replica"] == "engine-a"
    assert world["all"].of_requests("attempts", "output_tokens", "ttft_ns") == [(1, 96, 29_000_000)]


def test_an_agents_sums_are_no_usage(world: World) -> None:
    assert world["agent"].of_requests("attempts", "input_tokens", "output_tokens") == [(1, 100, 10), (1, 200, 20)]


def test_stacked_instrumentations_count_once(world: World) -> None:
    assert world["stacked"].of_requests("attempts", "input_tokens", "output_tokens") == [(1, 100, 20)]


def test_work_after_the_answer_is_no_request(world: World) -> None:
    assert world["detached"].requests == [] and world["litellm"].of_requests("attempts", "e2e_ns") == [(1, 100_000_000)]


def test_two_instrumentations_side_by_side_count_once(world: World) -> None:
    assert world["beside"].of_requests("attempts", "input_tokens", "output_tokens") == [(1, 100, 20)]
    assert world["beside2"].of_requests("attempts", "output_tokens") == [(2, 20)]


def test_a_gateways_record_beside_its_span_is_the_same_call(world: World) -> None:
    """The engine hangs under one of them; the other one began earlier."""
    assert world["record"].of_attempts("output_tokens", "replica", "usage_source") == [(20, "engine-a", "provider")]


def test_a_clients_view_above_two_workers_is_one_attempt(world: World) -> None:
    assert world["split"].of_requests("attempts", "output_tokens") == [(1, 20)]
