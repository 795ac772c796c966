"""Layers that share no trace: which id joins what to which request, and what stays alone (DESIGN 4.1)."""

from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.attribution.joining import HOLDERS_MAX
from pipeline.store.client import Store
from tests.sql.scenarios import World, assembled_world
from tests.sql.spans import Row, client_chat, gateway, litellm_chat, litellm_server, span, stage, vllm_request

# Made up, in the shape of the stacks' own: a router, a disaggregated engine with one root per worker, a cache with a trace of its own.
PROFILE = """
profile = "apart"
version = 1

[match]
scope_name = ["apart"]

[[span]]
name = "route request"
role = "inference"
layer = "router"
client_request_id = { from = ["request_id"] }
model = { from = ["model"] }

[[span]]
name = "worker"
role = "inference"
layer = "engine"
client_request_id = { from = ["rid"] }
join_key = { from = ["room"] }
model = { from = ["model"] }
input_tokens = { from = ["in"], includes_cache = true }
output_tokens = { from = ["out"] }

[[span]]
name = "cache request"
role = "stage"
layer = "cache"
stage = "kv_cache"
response_id = { from = ["session_id"] }

[[span]]
name = "cache load"
role = "stage"
layer = "cache"
stage = "kv_cache"
"""
SECOND = 1000


def called(name: str, id: str, *, at: float = 0, model: str = "m", **more: Any) -> list[Row]:
    """A LiteLLM request in trace `g<name>`; the answer's id is `id`."""
    return [
        litellm_server(f"g{name}", at, at + 100),
        litellm_chat(f"g{name}", "c1", at + 10, at + 90, gen_ai__response__id=id, gen_ai__response__model=model, **more),
    ]


def ran(name: str, id: str, *, at: float = 0, **more: Any) -> Row:
    """vLLM's span of it, at the top of trace `e<name>`."""
    return vllm_request(f"e{name}", "v1", at + 20, at + 80, gen_ai__request__id=id, **{"output": 21, **more})


def pair(name: str, gateway_id: str, engine_id: str = "", **more: Any) -> list[Row]:
    return [*called(name, gateway_id), ran(name, engine_id or gateway_id, **more)]


def asked(trace: str, id: str, *, at: float = 0, end: float = 100, **more: Any) -> Row:
    """A request of a gateway that writes no span of the call."""
    return gateway(trace, at, at + end, tokenpath__request__id=id, **more)


def worker(trace: str, id: str, start: float, end: float, parent: str = "", **more: Any) -> Row:
    return span(trace, id, "worker", start, end, parent, scope="apart", resource={"service.name": more.pop("on", "w")}, **more)


def cached(trace: str, session: str, start: float, end: float, **more: Any) -> list[Row]:
    return [
        span(trace, "root", "cache request", start, end, scope="apart", session_id=session, **more),
        span(trace, "load", "cache load", start + 1, end - 1, "root", scope="apart"),
    ]


def recorded(trace: str, call: str, answer: str, at: float = 0) -> list[Row]:
    """LiteLLM's logging payload as spans: the record tells of the request and of its call."""
    facts: dict[str, Any] = {"litellm_call_id": call, "metadata.user_api_key_team_id": "team-red", "scope": "tokenpath.record.litellm"}
    usage: dict[str, Any] = {"id": answer, "model": "m", "prompt_tokens": 100, "completion_tokens": 20}
    return [
        span(trace, "req", "request", at, at + 99, **facts),
        {**span(trace, "inf", "inference", at, at + 99, "req", **facts), "attributes": {**usage_text(usage), "litellm_call_id": call}},
    ]


def usage_text(usage: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in usage.items()}


ROWS: list[Row] = [
    litellm_server("grecord", 0, 100, litellm__call_id="call-1"),
    litellm_chat("grecord", "c1", 10, 90, gen_ai__response__id="q-1", litellm__call_id="call-1"),
    *recorded("lrecord", "call-1", "q-1"),
    ran("record", "q-1"),
    *recorded("lonlyrec", "call-2", "q-2"),
    ran("onlyrec", "q-2"),
    # The same id, written in the ways of the stacks
    *pair("same", "chatcmpl-7f3c"),
    *pair("prefix", "7f3d", "chatcmpl-7f3d"),
    *pair("prefix2", "chatcmpl-7f3e", "7f3e"),
    *pair("choice", "gw-88-b", "cmpl-gw-88-b-0"),
    *pair("hex", "gw-89-b", "chatcmpl-gw-89-b-0-1a2b3c4d"),
    *called("number1", "gw-901"),
    *called("number2", "gw-902"),
    ran("number1", "chatcmpl-gw-901"),
    ran("number2", "chatcmpl-gw-902"),
    # By the client's id alone, one row holds it
    asked("gx", "x-1"),
    vllm_request("ex", "v1", 20, 80, gen_ai__request__id="chatcmpl-x-1"),
    asked("gtwo", "x-2", tenant="acme"),
    asked("gtwob", "x-2", tenant="zed", at=50),
    vllm_request("etwo", "v1", 60, 80, gen_ai__request__id="chatcmpl-x-2"),
    asked("glater", "x-3"),
    asked("glaterb", "x-3", at=10 * SECOND),
    vllm_request("elater", "v1", 20, 80, gen_ai__request__id="chatcmpl-x-3"),
    vllm_request("elaterb", "v1", 10 * SECOND + 20, 10 * SECOND + 80, gen_ai__request__id="chatcmpl-x-3"),
    asked("gclose", "x-4"),
    asked("gcloseb", "x-4", at=900),  # within what clocks may differ
    vllm_request("eclose", "v1", 20, 80, gen_ai__request__id="chatcmpl-x-4"),
    asked("gskew", "x-5"),
    vllm_request("eskew", "v1", -900, -840, gen_ai__request__id="chatcmpl-x-5"),
    asked("gskew2", "x-6"),
    vllm_request("eskew2", "v1", -1001, -840, gen_ai__request__id="chatcmpl-x-6"),
    *(asked(f"gcrowd{n}", "x-7", at=n * 10 * SECOND) for n in range(HOLDERS_MAX + 1)),
    vllm_request("ecrowd", "v1", 20, 80, gen_ai__request__id="x-7"),
    *(asked(f"gmany{n}", "x-8", at=n * 10 * SECOND) for n in range(HOLDERS_MAX)),
    vllm_request("emany", "v1", 20, 80, gen_ai__request__id="x-8"),
    # Models
    *called("model", "m-1", model="openai/qwen-x"),
    worker("emodel", "w1", 20, 80, rid="m-1", model="Qwen/qwen-X", out=5),
    *called("other", "m-2", model="gpt-y"),
    worker("eother", "w1", 20, 80, rid="m-2", model="qwen-x", out=5),
    *called("othertwo", "m-3", model="gpt-y"),
    *called("othertw2", "m-3", model="qwen-x"),
    worker("eothertwo", "w1", 20, 80, rid="m-3", model="qwen-x", out=5),
    # Principals
    *called("tenant", "p-1"),
    vllm_request("etenant", "v1", 20, 80, gen_ai__request__id="p-1", principal="tenant/zed"),
    *(dict(row, principal="tenant/zed") for row in called("theirs", "p-2")),
    ran("theirs", "p-2"),
    *called("mixed", "p-3"),
    *(dict(row, principal="tenant/zed") for row in called("mixed2", "p-3")),
    ran("mixed", "p-3"),
    # Retries: several calls of one request hold the client's id
    litellm_server("gretry", 0, 100, http__request__header__x_request_id="r-1"),
    litellm_chat("gretry", "c1", 10, 40, failed=True, output=None, input=None),
    litellm_chat("gretry", "c2", 50, 90),
    vllm_request("eretry", "v1", 55, 85, gen_ai__request__id="chatcmpl-r-1", output=21),
    litellm_server("gboth", 0, 100, http__request__header__x_request_id="r-2"),
    span("gboth", "h1", "POST", 1, 99, "gw", scope="http"),
    litellm_chat("gboth", "c1", 10, 40, "h1", gen_ai__response__id="r-2", failed=True),
    litellm_chat("gboth", "c2", 50, 90, "h1", gen_ai__response__id="r-2"),
    vllm_request("eboth", "v1", 55, 85, gen_ai__request__id="r-2", output=21),
    # In one trace already
    litellm_server("inside", 0, 100),
    litellm_chat("inside", "c1", 10, 90, gen_ai__response__id="i-1"),
    vllm_request("inside", "v1", 20, 80, "elsewher", gen_ai__request__id="i-1"),  # a client's traceparent went through to both
    litellm_server("under", 0, 100, http__request__header__x_request_id="i-2"),
    span("under", "h1", "POST", 5, 95, "gw", scope="http"),
    vllm_request("under", "v1", 20, 80, "h1", gen_ai__request__id="i-2"),
    asked("gelsewh", "i-2"),  # another holder changes nothing: parent ids come first
    *(vllm_request("startup", f"v{n}", 20 + n, 80, "process", gen_ai__request__id=f"s-{n}") for n in range(3)),
    *(row for n in range(2) for row in called(f"start{n}", f"s-{n}")),
    vllm_request("ering", "v1", 20, 80, "x1", gen_ai__request__id="i-3"),
    span("ering", "x1", "a", 0, 1, "x2", scope="http"),
    span("ering", "x2", "b", 0, 1, "x1", scope="http"),
    asked("gring", "i-3"),
    # Trees, not only spans
    asked("gtree", "t-1"),
    worker("etree", "w1", 20, 80, rid="t-1", out=5),
    span("etree", "th", "scheduler", 21, 79, "w1", scope="x"),
    stage("etree", "pf", "prefill", 22, 40, "th"),
    stage("etree", "dc", "decode", 40, 78, "th"),
    worker("etree", "w2", 200, 210, rid="t-none", out=6),
    asked("gtaken", "t-2"),
    stage("gtaken", "pf", "prefill", 1, 2, "gw"),
    worker("etaken", "w1", 20, 80, rid="t-2", out=5),
    stage("etaken", "pf", "prefill", 22, 40, "w1"),
    # Other layers
    *called("cache", "k-1"),
    ran("cache", "k-1"),
    *cached("kcache", "k-1", 15, 25),
    ran("alone", "k-2"),
    *cached("kalone", "k-2", 25, 35),
    asked("grouter", "k-3"),
    span("rrouter", "r1", "route request", 5, 95, scope="apart", request_id="k-3"),
    worker("erouter", "w1", 20, 80, rid="k-3", out=5),
    span("ronly", "r1", "route request", 5, 95, scope="apart", request_id="k-4"),
    worker("eonly", "w1", 20, 80, rid="k-4", out=5),
    client_chat("sdk", "c0", -5, 105, gen_ai__response__id="k-5"),
    *called("sdk", "k-5"),
    ran("sdk", "k-5"),
    client_chat("sdka", "c0", -5, 105, gen_ai__response__id="k-6"),
    client_chat("sdkb", "c0", -4, 104, gen_ai__response__id="k-6"),
    *called("sdks", "k-6"),
    client_chat("around", "c0", -5, 105, gen_ai__response__id="k-7"),
    litellm_server("around", 0, 100, parent="c0"),
    litellm_chat("around", "c1", 10, 90, gen_ai__response__id="k-7"),
]


@pytest.fixture(scope="module")
def world(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> World:
    directory = tmp_path_factory.mktemp("config")
    (directory / "profiles").mkdir()
    (directory / "profiles" / "apart.toml").write_text(PROFILE)
    return assembled_world(engine, ROWS, directory)


def alone(world: World, *traces: str) -> list[bool]:
    """Which of these traces still show a request, and whether that is flagged."""
    return ["ambiguous_id" in world[trace].request["flags"] for trace in traces]


def gone(world: World, *traces: str) -> bool:
    return all(world[trace].requests == [] for trace in traces)


def engines(world: World, trace: str) -> Sequence[Any]:
    """Per attempt of a request: did an engine show it?"""
    return [any(key.startswith("engine/") for key in row["raw_usage"]) for row in world[trace].attempts]


@pytest.mark.parametrize("name", ["same", "prefix", "prefix2", "choice", "hex", "number1", "number2"])
def test_one_call_seen_by_gateway_and_engine_is_one_attempt(world: World, name: str) -> None:
    """vLLM's id is `chatcmpl-<X-Request-Id>`, per choice and sometimes with random hex behind; the gateway knows the answer's id."""
    assert gone(world, f"e{name}")
    attempt = world[f"g{name}"].attempt
    assert (attempt["replica"], attempt["output_tokens"], attempt["usage_source"]) == ("engine-a", 20, "provider")
    assert attempt["raw_usage"]["engine/gen_ai.usage.completion_tokens"] == 21 and "usage_mismatch" in attempt["flags"]
    assert attempt["attempt_id"] == f"g{name}".ljust(16, ".").encode().hex() + "-" + b"c1......".hex()


def test_a_clients_id_joins_where_one_row_holds_it(world: World) -> None:
    assert gone(world, "ex") and world["gx"].of_requests("tenant", "output_tokens", "attempts", "outcome") == [("acme", 20, 1, "useful")]


def test_a_clients_id_that_two_rows_hold_at_the_time_joins_nothing(world: World) -> None:
    """Nobody can say whose it is; a guess would bill a stranger."""
    assert alone(world, "etwo", "gtwo", "gtwob") == [True, False, False]
    assert world["etwo"].of_requests("tenant", "output_tokens") == [("unknown", 20)]
    assert world["gtwo"].attempts == world["gtwob"].attempts == []


def test_an_id_used_again_later_joins_each_time(world: World) -> None:
    assert gone(world, "elater", "elaterb")
    assert world["glater"].of_requests("attempts") == world["glaterb"].of_requests("attempts") == [1]


def test_clocks_may_differ_by_a_second(world: World) -> None:
    assert gone(world, "eskew") and world["gskew"].of_requests("attempts") == [1]
    assert alone(world, "eskew2", "gskew2") == [False, False]
    assert alone(world, "eclose") == [True]  # and two rows a second apart are two


def test_an_id_that_everybody_holds_is_no_name(world: World) -> None:
    assert alone(world, "ecrowd") == [True]
    assert gone(world, "emany") and world["gmany0"].of_requests("attempts") == [1]


def test_only_a_row_of_that_model(world: World) -> None:
    """Names are compared without a provider's path and without case; what is not told is not compared."""
    assert gone(world, "emodel") and engines(world, "gmodel") == [True]
    assert alone(world, "eother") == [False] and engines(world, "gother") == [False]
    assert gone(world, "eothertwo") and engines(world, "gothertw2") == [True] and engines(world, "gothertwo") == [False]


def test_never_across_principals(world: World) -> None:
    assert world["etenant"].of_requests("tenant") == ["zed"] and engines(world, "gtenant") == [False]
    assert world["etheirs"].of_requests("tenant", "flags") == [("unknown", ["replica_unlisted", "split_unknown"])]
    assert gone(world, "emixed") and engines(world, "gmixed") == [True]  # a tenant that repeats an id spoils nothing


def test_of_several_calls_of_one_request_the_one_around_it(world: World) -> None:
    assert gone(world, "eretry", "eboth")
    assert engines(world, "gretry") == [False, True]
    assert engines(world, "gboth") == [False, True]


def test_an_id_joins_inside_one_trace_too(world: World) -> None:
    """Gateway and engine both got the client's traceparent: one trace, one absent parent (CONTRACTS 2.3), and no parent id between them."""
    assert world["inside"].of_requests("attempts", "output_tokens") == [(1, 20)] and engines(world, "inside") == [True]


def test_parent_ids_come_before_other_ids(world: World) -> None:
    assert world["under"].of_requests("attempts") == [1] and world["gelsewh"].attempts == []


def test_each_root_of_a_shared_trace_joins_its_own_request(world: World) -> None:
    """vLLM without headers hangs all requests under its start-up trace."""
    assert engines(world, "gstart0") == engines(world, "gstart1") == [True]
    assert [row["root_span_id"] for row in world["startup"].requests] == [b"v2......"]


def test_a_circle_of_parents_joins_nothing(world: World) -> None:
    assert alone(world, "ering") == [False] and world["gring"].attempts == []


def test_the_whole_tree_comes_along(world: World) -> None:
    assert world["gtree"].of_requests("output_tokens", "attempts") == [(5, 1)]
    stages = world["gtree"].request["stage_ns"]
    assert (stages["prefill"], stages["decode"]) == (18_000_000, 38_000_000)
    assert world["etree"].of_requests("output_tokens") == [6]


def test_a_span_id_that_is_taken_in_the_other_trace_keeps_the_tree_where_it_is(world: World) -> None:
    assert alone(world, "etaken", "gtaken") == [True, False]
    assert world["etaken"].request["stage_ns"]["prefill"] == 18_000_000


def test_a_cache_with_traces_of_its_own(world: World) -> None:
    """LMCache's `session_id` is the engine's request id; it has no usage, so it is no attempt."""
    assert world["gcache"].of_requests("attempts") == [1] and world["gcache"].request["stage_ns"]["kv_cache"] == 10_000_000
    assert world["ealone"].of_requests("attempts") == [1] and world["ealone"].request["stage_ns"]["kv_cache"] == 10_000_000
    assert gone(world, "kcache", "kalone")


def test_routers_join_gateways_and_engines_join_routers(world: World) -> None:
    assert gone(world, "rrouter", "erouter") and world["grouter"].of_requests("output_tokens", "attempts") == [(5, 1)]
    assert gone(world, "eonly") and world["ronly"].of_requests("output_tokens", "attempts") == [(5, 1)]


def test_a_clients_view_without_a_trace_is_no_request_of_its_own(world: World) -> None:
    """SDK, gateway and engine report one call in three traces: one request, one attempt, billed by the gateway's usage."""
    assert gone(world, "sdk", "esdk")
    attempt = world["gsdk"].attempt
    assert {key.split("/")[0] for key in attempt["raw_usage"]} == {"client", "gateway", "engine"}
    assert world["gsdk"].of_requests("output_tokens", "attempts", "e2e_ns") == [(20, 1, 100_000_000)]


def test_two_clients_views_of_one_request_are_one_too_many(world: World) -> None:
    assert alone(world, "sdka", "sdkb", "gsdks") == [True, True, False]


def test_a_client_above_its_own_gateway_is_joined_by_parents(world: World) -> None:
    assert world["around"].of_requests("attempts") == [1] and alone(world, "around") == [False]


def test_a_gateways_record_of_a_request_is_no_second_request(world: World) -> None:
    """LiteLLM's trace and its logging payload tell of one call; the payload joins by the call's id, and the engine by the answer's."""
    assert gone(world, "lrecord", "erecord")
    assert world["grecord"].of_requests("attempts", "output_tokens", "tenant") == [(1, 20, "team-red")]
    assert world["grecord"].attempt["raw_usage"].keys() >= {"gateway/gen_ai.usage.output_tokens", "gateway/completion_tokens"}
    assert engines(world, "grecord") == [True]


def test_a_record_without_a_trace_is_the_request(world: World) -> None:
    assert gone(world, "eonlyrec") and world["lonlyrec"].of_requests("attempts", "output_tokens") == [(1, 20)]
