"""Prefill and decode on different workers: legs of one attempt, whoever says that they belong together."""

from typing import Any

import pytest

from pipeline.store.client import Store
from tests.sql.scenarios import World, assembled_world
from tests.sql.spans import Row, gateway, litellm_chat, litellm_server, span, stage, vllm_request

# In the shape of SGLang's roots (one per worker, `bootstrap_room` on both) and of Dynamo's spans of a worker, which tell no tokens.
PROFILE = """
profile = "halves"
version = 1

[match]
scope_name = ["halves"]

[[span]]
name = "prefill"
role = "inference"
layer = "engine"
phase = { from = ["none"], absent = "prefill" }
join_key = { from = ["bootstrap_room"] }
response_id = { from = ["rid"] }
input_tokens = { from = ["in"], includes_cache = true }
output_tokens = { from = ["out"] }
input_cache_read_tokens = { from = ["cached"] }
ttft_ns = { from = ["ttft"], unit = "ms" }

[[span]]
name = "decode"
role = "inference"
layer = "engine"
phase = { from = ["none"], absent = "decode" }
join_key = { from = ["bootstrap_room"] }
response_id = { from = ["rid"] }
input_tokens = { from = ["in"], includes_cache = true }
output_tokens = { from = ["out"] }
input_cache_read_tokens = { from = ["cached"] }
ttft_ns = { from = ["ttft"], unit = "ms" }

[[span]]
name = "handle_payload"
role = "inference"
layer = "engine"
phase = { from = ["component"] }
join_key = { from = ["x_dynamo_request_id"] }
"""


def half(trace: str, id: str, name: str, start: float, end: float, parent: str = "", **more: Any) -> Row:
    return span(trace, id, name, start, end, parent, scope="halves", resource={"service.name": f"{name}-worker"}, **more)


def halves(trace: str, other: str = "", parent: str = "", *, prefill_at: float = 10, decode_at: float = 12, **more: Any) -> list[Row]:
    """A prompt of 100 tokens of which 40 were cached where it was prefilled; the decode worker was sent all of them."""
    return [
        half(trace, "pf", "prefill", prefill_at, 40, parent, **{"in": 100, "out": 1, "cached": 40, "ttft": 40 - prefill_at}, **more),
        half(
            other or trace, "dc", "decode", decode_at, 90, parent, **{"in": 100, "out": 20, "cached": 100, "ttft": 42 - decode_at}, **more
        ),
    ]


def on(worker: str) -> dict[str, Any]:
    return {"resource": {"service.name": worker}, "output": 20}


ROWS: list[Row] = [
    *halves("apart1", "apart2", bootstrap_room="0x1"),
    *halves("later1", "later2", prefill_at=12, decode_at=10, bootstrap_room="0x2"),
    *halves("gw", parent="gw", bootstrap_room="0x3"),
    gateway("gw", 0, 100),
    *halves("below1", "below2", bootstrap_room="0x4", rid="r-4"),
    litellm_server("below", 0, 100),
    litellm_chat("below", "c1", 5, 95, gen_ai__response__id="r-4"),
    *halves("onlyone1", "onlyone2", bootstrap_room="0x5"),
    half("onlyone3", "dc", "decode", 50, 90, bootstrap_room="0x5", out=7),
    *halves("twice", parent="gw", bootstrap_room="0x6"),
    half("twice", "pf2", "prefill", 110, 140, "gw", **{"in": 100, "out": 1}, bootstrap_room="0x7"),
    half("twice", "dc2", "decode", 112, 190, "gw", **{"in": 100, "out": 30}, bootstrap_room="0x7"),
    gateway("twice", 0, 200),
    # llm-d: the decode's span is a child of the prefill's, and vLLM's spans hang under both
    gateway("llmd", 0, 100),
    span("llmd", "pp", "llm_d.pd_proxy.prefill", 5, 95, "gw", scope="llm-d"),
    vllm_request("llmd", "v1", 6, 40, "pp", resource={"service.name": "p"}, output=1, gen_ai__request__id="chatcmpl-9"),
    span("llmd", "pd", "llm_d.pd_proxy.decode", 41, 95, "pp", scope="llm-d"),
    vllm_request("llmd", "v2", 42, 90, "pd", resource={"service.name": "d"}, output=20, gen_ai__request__id="chatcmpl-9"),
    # No legs
    gateway("failed", 0, 100),
    vllm_request("failed", "v1", 6, 40, "gw", resource={"service.name": "p"}, output=1, failed=True, gen_ai__request__id="chatcmpl-9"),
    vllm_request("failed", "v2", 42, 90, "gw", resource={"service.name": "d"}, output=20, gen_ai__request__id="chatcmpl-9"),
    gateway("again", 0, 100),
    vllm_request("again", "v1", 6, 40, "gw", resource={"service.name": "p"}, output=15, gen_ai__request__id="chatcmpl-9"),
    vllm_request("again", "v2", 42, 90, "gw", resource={"service.name": "d"}, output=20, gen_ai__request__id="chatcmpl-9"),
    gateway("choices", 0, 100),
    *(vllm_request("choices", f"v{n}", 10 + n, 90, "gw", output=1 + n, gen_ai__request__id="chatcmpl-9") for n in range(3)),
    # Dynamo's workers under its frontend: no tokens on any span
    gateway("dynamo", 0, 100),
    half("dynamo", "h1", "handle_payload", 10, 30, "gw", component="prefill", x_dynamo_request_id="d-88"),
    half("dynamo", "h2", "handle_payload", 31, 90, "gw", component="backend", x_dynamo_request_id="d-88"),
    # Stages of both workers say more exactly when they ran
    *halves("stages", parent="gw", bootstrap_room="0x8"),
    gateway("stages", 0, 100),
    stage("stages", "s1", "prefill", 20, 38, "pf", resource={"tokenpath.replica.id": "prefill-worker"}),
    stage("stages", "s2", "decode", 50, 88, "dc", resource={"tokenpath.replica.id": "decode-worker"}),
]


@pytest.fixture(scope="module")
def world(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> World:
    directory = tmp_path_factory.mktemp("config")
    (directory / "profiles").mkdir()
    (directory / "profiles" / "halves.toml").write_text(PROFILE)
    return assembled_world(engine, ROWS, directory)


def legs(world: World, trace: str) -> list[tuple[str, str]]:
    return [(leg["replica"], leg["phase"]) for leg in world[trace].attempt["legs"]]


TOKENS = ("input_tokens", "input_cache_read_tokens", "output_tokens")
BOTH = [("prefill-worker", "prefill"), ("decode-worker", "decode")]


@pytest.mark.parametrize("trace", ["gw", "apart1", "below"])
def test_two_workers_are_two_legs_of_one_attempt(world: World, trace: str) -> None:
    """The prompt counts once, the answer is the decode worker's, cached is what the prefill found: KV that was sent is no cache hit."""
    assert world[trace].of_requests("attempts", "failed_attempts") == [(1, 0)]
    assert legs(world, trace) == BOTH
    attempt = world[trace].attempt
    assert attempt["replica"] == "decode-worker" and attempt["raw_usage"]["engine/out"] == 20
    if trace != "below":  # there the gateway bills
        assert [attempt[column] for column in TOKENS] == [100, 40, 20]


def test_it_does_not_matter_which_worker_began(world: World) -> None:
    assert world["later1"].requests == [] and legs(world, "later2") == BOTH
    assert world["later2"].of_attempts(*TOKENS) == [(100, 40, 20)]


def test_a_third_root_of_one_room_is_one_too_many(world: World) -> None:
    assert world["onlyone1"].of_requests("attempts") == [1]
    assert "ambiguous_id" in world["onlyone3"].request["flags"]


def test_another_room_is_another_attempt(world: World) -> None:
    assert world["twice"].of_attempts("output_tokens", "outcome") == [(20, "superseded"), (30, "useful")]


def test_a_worker_that_made_one_token_handed_over(world: World) -> None:
    """llm-d asks vLLM's prefill for one token and then a decode instance for the answer, with one id."""
    assert world["llmd"].of_requests("attempts", "output_tokens", "input_tokens") == [(1, 20, 100)]
    assert legs(world, "llmd") == [("p", "prefill"), ("d", "decode")]


@pytest.mark.parametrize(("trace", "outcomes"), [("failed", ["failed", "useful"]), ("again", ["superseded", "useful"])])
def test_a_retry_elsewhere_is_no_leg(world: World, trace: str, outcomes: list[str]) -> None:
    assert world[trace].of_attempts("outcome") == outcomes


def test_choices_on_one_worker_are_no_legs(world: World) -> None:
    assert world["choices"].of_attempts("input_tokens", "output_tokens", "legs") == [(100, 6, [])]


def test_workers_without_usage_are_one_attempt_too(world: World) -> None:
    assert world["dynamo"].of_requests("attempts", "output_tokens", "usage_state") == [(1, None, "unknown")]
    assert [phase for _, phase in legs(world, "dynamo")] == ["prefill", "decode"]


def test_stage_spans_of_the_workers_are_the_legs(world: World) -> None:
    assert legs(world, "stages") == BOTH
    assert [leg["first_at"].microsecond for leg in world["stages"].attempt["legs"]] == [20_000, 50_000]
