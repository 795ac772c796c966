"""Which spans show one attempt, which layer bills, and how values are read."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.store.client import Store
from tests.sql.scenarios import World, assembled_world
from tests.sql.spans import START, Row, chat, client_chat, gateway, litellm_chat, litellm_route, litellm_server, span, stage, vllm_request

INVENTORY = """
[[replica]]
id = "first"
match = { "service.name" = "engine-a" }
model = "catalogue-model"
gpu = "h100-sxm"
gpus = 1
from = 2026-11-01T00:00:00Z
to = 2026-11-30T10:05:00Z

[[replica]]
id = "second"
match = { "service.name" = "engine-a" }
model = "catalogue-model"
gpu = "h100-sxm"
gpus = 1
from = 2026-11-30T10:05:00Z

[[replica]]
id = "narrow"
match = { "service.name" = "engine-a", "zone" = "b" }
model = "catalogue-model"
gpu = "h100-sxm"
gpus = 1
from = 2026-11-01T00:00:00Z

[[replica]]
id = "byid"
model = "catalogue-model"
gpu = "h100-sxm"
gpus = 1
from = 2026-11-01T00:00:00Z
"""
# A stack whose input leaves cached tokens out, and whose spans are told apart by a resource attribute.
PROFILE = """
profile = "other"
version = 1

[match]
scope_name = ["other.sdk"]
resource = { "telemetry.flavour" = "raw" }

[[span]]
name = "call"
role = "inference"
layer = "gateway"
model = { from = ["model.alias", "model"] }
streamed = { from = ["stream"], absent = false }
http_status = { from = ["status"] }
finish_reason = { from = ["why"] }
ttft_ns = { from = ["first_ms"], unit = "ms" }
input_tokens = { from = ["in"], includes_cache = false }
output_tokens = { from = ["out.new", "out"] }
input_cache_read_tokens = { from = ["read"] }
input_cache_write_tokens = { from = ["write"] }
output_reasoning_tokens = { from = ["thought"] }
"""
RAW = {"telemetry.flavour": "raw"}
LATE = 300_000  # 10:05, when the second replica takes over


def call(trace: str, **more: Any) -> Row:
    facts: dict[str, Any] = {"resource": RAW, "in": 10, "out": 5, **more}
    return span(trace, "c1", "call", 0, 100, scope="other.sdk", **facts)


ROWS: list[Row] = [
    # Layers
    litellm_server("layers", 0, 100),
    litellm_chat("layers", "c1", 10, 90, input=100, output=20),
    vllm_request("layers", "v1", 20, 80, "c1", input=100, output=21, gen_ai__latency__time_to_first_token=0.01),
    litellm_server("agree", 0, 100),
    litellm_chat("agree", "c1", 10, 90),
    vllm_request("agree", "v1", 20, 80, "c1"),
    litellm_server("mute", 0, 100),
    litellm_chat("mute", "c1", 10, 90, input="-", output=""),
    vllm_request("mute", "v1", 20, 80, "c1", output=7),
    client_chat("sdk", "c1", 0, 100, output=30),
    vllm_request("sdk", "v1", 10, 90, "c1", output=31),
    client_chat("above", "c0", 0, 120, gen_ai__usage__output_tokens=20),
    litellm_server("above", 10, 110, parent="c0"),
    litellm_chat("above", "c1", 20, 100),
    litellm_chat("above", "c2", 101, 105, failed=True, input=0, output=0),
    client_chat("above2", "c0", 0, 300),
    litellm_server("above2", 10, 110, parent="c0"),
    litellm_chat("above2", "c1", 20, 100),
    litellm_server("above2", 150, 290, id="gw2", parent="c0"),
    litellm_chat("above2", "c2", 160, 280, "gw2"),
    litellm_server("wrap", 0, 100),
    litellm_chat("wrap", "c0", 5, 95, output=99),
    litellm_chat("wrap", "c1", 10, 40, "c0", failed=True, input=0, output=0),
    litellm_chat("wrap", "c2", 50, 90, "c0"),
    litellm_server("beside", 0, 100),
    litellm_chat("beside", "c1", 10, 90),
    vllm_request("beside", "v1", 20, 80, "gw"),
    litellm_server("between", 0, 100),
    litellm_chat("between", "c1", 10, 90),
    litellm_chat("between", "c2", 12, 88),
    vllm_request("between", "v1", 20, 80, "gw"),
    litellm_server("outside", 0, 100),
    litellm_chat("outside", "c1", 10, 60),
    vllm_request("outside", "v1", 20, 80, "gw"),
    litellm_server("second", 0, 100),
    litellm_chat("second", "c1", 10, 40),
    litellm_chat("second", "c2", 50, 90),
    vllm_request("second", "v1", 55, 85, "gw"),
    # Retries, siblings, hints
    gateway("retry", 0, 100),
    chat("retry", "c1", 10, 40, failed=True, output=None, input=None),
    chat("retry", "c2", 50, 90, output=8),
    gateway("again", 0, 100),
    chat("again", "c1", 10, 40),
    chat("again", "c2", 50, 90, output=8),
    *(
        vllm_request("choices", id, start, end, "elsewher", output=out, gen_ai__request__id="x")
        for id, start, end, out in [("v2", 0, 50, 5), ("v1", 1, 90, 6), ("v3", 80, 95, 7)]
    ),
    *(
        vllm_request("resent", id, start, end, "elsewher", output=out, gen_ai__request__id="x")
        for id, start, end, out in [("v1", 0, 50, 5), ("v2", 50, 90, 6)]
    ),
    litellm_server("sibgw", 0, 100),
    litellm_chat("sibgw", "c1", 5, 95, output=11),
    *(vllm_request("sibgw", id, 10, 90, "c1", output=out, gen_ai__request__id="x") for id, out in [("v1", 5), ("v2", 6)]),
    litellm_server("hinted", 0, 100, status=500),
    litellm_route("hinted", "r1", 10, 11),
    litellm_route("hinted", "r2", 50, 51),
    litellm_server("hintok", 0, 100),
    litellm_route("hintok", "r1", 10, 11),
    litellm_route("hintok", "r2", 50, 51),
    # Values
    call("raw", read=7, write=3),
    call("zero", **{"in": 0, "out": 0}),
    call("minus", **{"in": -1, "out": "-1"}),
    call("text", **{"in": "10", "out": "5.0", "status": "200", "stream": "True"}),
    call("junk", **{"in": "many", "out": "null"}),
    call("absurd", **{"in": 2**63 - 1, "out": 2**40 + 1}),
    call("most", **{"in": 2**40, "out": 2**40}),
    call("next", **{"out.new": "-", "out": 9, "model.alias": "", "model": "m"}),
    call("prefer", **{"out.new": 8, "out": 9}),
    call("reason", why='["length", "stop"]'),
    call("reason1", why="stop"),
    call("reason2", why="[odd"),
    call("over", **{"in": 0, "read": 0, "thought": 50}),
    call("below", read=-16, thought=0),
    litellm_server("copy", 0, 100),
    litellm_chat("copy", "c1", 10, 90),
    litellm_chat("copy", "c2", 10, 90),
    call("ms", first_ms=1.5, stream="1"),
    litellm_server("cached", 0, 100),
    litellm_chat(
        "cached", "c1", 10, 90, input=100, gen_ai__usage__cache_read__input_tokens=120, gen_ai__usage__cache_creation__input_tokens=5
    ),
    call("notraw", resource={"telemetry.flavour": "cooked"}),
    # Replicas
    vllm_request("rep1", "v1", LATE - 1, LATE, ""),
    vllm_request("rep2", "v1", LATE, LATE + 1, ""),
    vllm_request("rep3", "v1", 0, 1, resource={"service.name": "engine-a", "zone": "b"}),
    vllm_request("rep4", "v1", 0, 1, resource={"tokenpath.replica.id": "byid", "service.name": "x"}),
    vllm_request("rep5", "v1", 0, 1, resource={"k8s.pod.name": "pod-7", "service.instance.id": "i", "service.name": "x"}),
    vllm_request("rep6", "v1", 0, 1, resource={"service.instance.id": "i", "service.name": "x"}),
    vllm_request("rep7", "v1", 0, 1, resource={"service.name": "x"}),
    gateway("rep8", 0, 9),
    chat("rep8", "c1", 1, 8, resource={"service.name": "gateway"}, tokenpath__replica__id="byid"),
    gateway("rep9", 0, 9, resource={"service.name": "engine-a"}),
    # Disaggregated serving: two workers, one attempt; preemption; drafts
    gateway("split", 0, 100),
    stage("split", "rt", "route", 2, 4, "gw", tokenpath__route__expected_hit_tokens=64, tokenpath__route__best_hit_tokens=96),
    chat("split", "c1", 5, 95, resource={"service.name": "gateway"}),
    stage("split", "sc", "schedule", 5, 20, "c1", resource={"tokenpath.replica.id": "p"}),
    stage("split", "pf", "prefill", 20, 40, "c1", resource={"tokenpath.replica.id": "p"}),
    stage("split", "dc", "decode", 45, 90, "c1", resource={"tokenpath.replica.id": "d"}),
    gateway("preempt", 0, 100),
    chat("preempt", "c1", 5, 95),
    stage("preempt", "p1", "prefill", 10, 20, "c1"),
    stage("preempt", "d1", "decode", 20, 40, "c1"),
    stage("preempt", "p2", "prefill", 50, 60, "c1", tokenpath__recompute_tokens=30),
    stage(
        "preempt",
        "d2",
        "decode",
        60,
        90,
        "c1",
        tokenpath__recompute_tokens=4,
        tokenpath__draft__proposed_tokens=50,
        tokenpath__draft__accepted_tokens=42,
    ),
    gateway("queued", 0, 100, http__response__status_code=503),
    chat("queued", "c1", 5, 95, failed=True, input=None, output=None),
    stage("queued", "sc", "schedule", 5, 90, "c1"),
    gateway("loose", 0, 100),
    chat("loose", "c1", 5, 95),
    stage("loose", "pf", "prefill", 10, 20, "gw"),
    stage("loose", "dc", "decode", 20, 90, "gw"),
]


@pytest.fixture(scope="module")
def world(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> World:
    directory: Path = tmp_path_factory.mktemp("config")
    (directory / "profiles").mkdir()
    (directory / "profiles" / "other.toml").write_text(PROFILE)
    return assembled_world(engine, ROWS, directory, {"inventory.toml": INVENTORY})


def test_one_layer_bills_and_all_raw_counts_are_kept(world: World) -> None:
    attempt = world["layers"].attempt
    assert (attempt["input_tokens"], attempt["output_tokens"], attempt["usage_source"]) == (100, 20, "provider")
    assert attempt["raw_usage"] == {
        "gateway/gen_ai.usage.input_tokens": 100, "gateway/gen_ai.usage.output_tokens": 20,
        "engine/gen_ai.usage.prompt_tokens": 100, "engine/gen_ai.usage.completion_tokens": 21,
    }  # fmt: skip
    assert "usage_mismatch" in attempt["flags"] and "usage_mismatch" in world["layers"].request["flags"]
    assert attempt["generated_tokens"] == 21 and attempt["replica"] == "first"
    assert "usage_mismatch" not in world["agree"].attempt["flags"]


def test_without_a_word_from_the_gateway_the_engine_bills(world: World) -> None:
    assert world["mute"].of_attempts("input_tokens", "output_tokens", "usage_source") == [(100, 7, "engine")]


def test_the_engine_bills_before_a_client(world: World) -> None:
    attempt = world["sdk"].attempt
    assert (attempt["output_tokens"], attempt["usage_source"]) == (31, "engine")
    assert attempt["raw_usage"]["client/gen_ai.usage.output_tokens"] == 30
    assert world["sdk"].request["root_span_id"] == b"c1......"


def test_a_clients_span_above_the_gateway_is_a_view_of_the_last_attempt(world: World) -> None:
    assert world["above"].of_requests("input_tokens", "attempts", "failed_attempts") == [(100, 2, 1)]
    assert world["above"].attempts[1]["raw_usage"]["client/gen_ai.usage.output_tokens"] == 20
    assert "client/gen_ai.usage.output_tokens" not in world["above"].attempts[0]["raw_usage"]


def test_a_clients_span_above_two_gateway_requests_counts_for_neither(world: World) -> None:
    assert world["above2"].of_requests("input_tokens", "attempts") == [(100, 1), (100, 1)]
    assert not any(key.startswith("client/") for row in world["above2"].attempts for key in row["raw_usage"])


def test_usage_counts_at_the_leaves_of_a_layer(world: World) -> None:
    assert world["wrap"].of_attempts("output_tokens", "outcome") == [(0, "failed"), (20, "useful")]


def test_an_engine_span_inside_exactly_one_call_is_that_call(world: World) -> None:
    assert world["beside"].of_attempts("replica", "usage_source") == [("first", "provider")]
    assert world["second"].of_attempts("replica") == ["", "first"]
    assert len(world["between"].attempts) == 3  # inside two: nobody knows which
    assert len(world["outside"].attempts) == 2


def test_a_retry_is_another_attempt(world: World) -> None:
    assert world["retry"].of_attempts("attempt_no", "outcome", "delivered_tokens") == [(1, "failed", 0), (2, "useful", 8)]
    assert world["retry"].of_requests("output_tokens", "generated_tokens", "failed_attempts", "outcome") == [(8, 8, 1, "useful")]


def test_an_attempt_that_ended_well_before_a_later_one_is_superseded(world: World) -> None:
    assert world["again"].of_attempts("outcome", "delivery", "delivered_tokens") == [("superseded", "none", 0), ("useful", "assumed", 8)]
    assert world["again"].of_requests("output_tokens", "generated_tokens", "attempts", "failed_attempts") == [(8, 28, 2, 0)]


def test_siblings_that_overlap_are_one_attempt_also_in_a_chain(world: World) -> None:
    assert world["choices"].of_attempts("input_tokens", "output_tokens") == [(100, 18)]
    assert world["choices"].request["root_span_id"] == b"v2......"
    assert world["choices"].request["e2e_ns"] == 95_000_000


def test_the_same_id_after_the_end_is_a_retry(world: World) -> None:
    assert world["resent"].of_requests("attempts", "output_tokens") == [(1, 5), (1, 6)]


def test_siblings_under_a_gateways_call_are_one_attempt_with_it(world: World) -> None:
    attempt = world["sibgw"].attempt
    assert (attempt["output_tokens"], attempt["raw_usage"]["engine/gen_ai.usage.completion_tokens"]) == (11, 11)
    assert attempt["raw_usage"]["engine/gen_ai.usage.prompt_tokens"] == 100 and "usage_mismatch" not in attempt["flags"]


def test_a_hint_without_a_call_failed_if_another_follows_and_else_ended_as_its_request(world: World) -> None:
    columns = ("outcome", "usage_state", "usage_source")
    assert world["hinted"].of_attempts(*columns) == [("failed", "unknown", "none")] * 2
    assert world["hinted"].of_requests("outcome", "failed_attempts") == [("failed", 2)]
    assert world["hintok"].of_attempts(*columns) == [("failed", "unknown", "none"), ("unmetered", "unknown", "none")]
    assert world["hintok"].of_requests("outcome", "failed_attempts") == [("unmetered", 1)]


def test_input_that_leaves_cached_tokens_out_is_made_inclusive(world: World) -> None:
    tokens = ("input_tokens", "input_uncached_tokens", "input_cache_read_tokens", "input_cache_write_tokens")
    assert world["raw"].of_attempts(*tokens) == [(20, 10, 7, 3)]


@pytest.mark.parametrize(
    ("trace", "input", "output"),
    [
        ("zero", 0, 0), ("minus", None, None), ("text", 10, 5), ("junk", None, None), ("next", 10, 9), ("prefer", 10, 8),
        ("absurd", None, None), ("most", 2**40, 2**40),
    ],
)  # fmt: skip
def test_values_are_read_by_rule(world: World, trace: str, input: int | None, output: int | None) -> None:
    assert world[trace].of_attempts("input_tokens", "output_tokens") == [(input, output)]


def test_texts_booleans_and_lists(world: World) -> None:
    assert world["text"].of_attempts("http_status", "streamed") == [(200, 1)]
    assert world["raw"].attempt["streamed"] == 0  # the profile says what its absence means
    assert world["next"].attempt["model"] == "m" and world["raw"].attempt["model"] == "unknown"
    assert [world[trace].attempt["finish_reason"] for trace in ("reason", "reason1", "reason2")] == ["length", "stop", "[odd"]
    assert world["ms"].of_requests("ttft_ns", "streamed") == [(1_500_000, 1)]
    assert world["notraw"].requests == []  # the resource does not fit the rule


def test_cached_above_input_is_cut_for_the_buckets_and_kept_raw(world: World) -> None:
    attempt = world["cached"].attempt
    tokens = ("input_tokens", "input_uncached_tokens", "input_cache_read_tokens", "input_cache_write_tokens")
    assert [attempt[column] for column in tokens] == [100, 0, 100, 0]
    assert attempt["raw_usage"]["gateway/gen_ai.usage.cache_read.input_tokens"] == 120
    assert "cached_over_input" in attempt["flags"] and "cached_over_input" not in world["agree"].attempt["flags"]


def test_reasoning_above_output_is_cut_for_the_buckets_and_kept_raw(world: World) -> None:
    attempt = world["over"].attempt
    assert (attempt["output_tokens"], attempt["output_text_tokens"], attempt["output_reasoning_tokens"]) == (5, 0, 5)
    assert attempt["raw_usage"]["gateway/thought"] == 50
    assert "reasoning_over_output" in attempt["flags"] and "reasoning_over_output" in world["over"].request["flags"]
    assert "reasoning_over_output" not in world["agree"].attempt["flags"]


def test_the_same_call_under_a_new_id_is_not_billed_twice(world: World) -> None:
    assert world["copy"].of_requests("input_tokens", "output_tokens", "delivered_tokens") == [(100, 20, 20)]
    assert sorted(world["copy"].of_attempts("outcome")) == ["superseded", "useful"]


def test_a_negative_hit_is_unknown_for_the_buckets(world: World) -> None:
    attempt = world["below"].attempt
    assert (attempt["input_tokens"], attempt["input_uncached_tokens"], attempt["input_cache_read_tokens"]) == (10, 10, None)
    assert "split_unknown" in attempt["flags"]


def test_buckets_are_disjoint_and_cover_the_total(world: World) -> None:
    for row in world.attempts + world.requests:
        if row["input_tokens"] is not None:
            assert row["input_tokens"] == sum(
                row[f"input_{bucket}_tokens"] or 0 for bucket in ("uncached", "cache_read", "cache_write")
            )  # fmt: skip
        if row["output_tokens"] is not None:
            assert row["output_tokens"] == row["output_text_tokens"] + (row["output_reasoning_tokens"] or 0)


def test_the_replica_is_the_inventory_row_that_fits_on_the_day_else_what_the_resource_calls_itself(world: World) -> None:
    named = {trace: world[trace].attempt["replica"] for trace in (f"rep{n}" for n in range(1, 9))}
    assert named == {
        "rep1": "first", "rep2": "second", "rep3": "narrow", "rep4": "byid", "rep5": "pod-7", "rep6": "i", "rep7": "x", "rep8": "byid",
    }  # fmt: skip
    assert [trace for trace in named if "replica_unlisted" in world[trace].attempt["flags"]] == ["rep5", "rep6", "rep7"]
    assert world["rep1"].attempt["model"] == "catalogue-model" and world["rep7"].attempt["model"] == "unknown"
    assert world["layers"].attempt["model"] == "m"
    assert world["rep9"].attempts == []


def at(ms: float) -> datetime:
    return datetime.fromtimestamp(START // 10**9, UTC) + timedelta(milliseconds=ms)


def test_prefill_and_decode_workers_are_two_legs_of_one_attempt(world: World) -> None:
    attempt = world["split"].attempt
    assert [(leg["replica"], leg["phase"], leg["first_at"], leg["last_at"]) for leg in attempt["legs"]] == [
        ("p", "prefill", at(20), at(40)), ("d", "decode", at(45), at(90)),
    ]  # fmt: skip
    assert (attempt["first_scheduled_at"], attempt["first_token_at"], attempt["last_token_at"]) == (at(20), at(40), at(90))
    assert (attempt["replica"], attempt["expected_hit_tokens"], attempt["best_hit_tokens"]) == ("p", 64, 96)
    assert world["split"].request["queue_ns"] == 15_000_000


def test_after_a_preemption_the_first_token_stays_the_first(world: World) -> None:
    attempt = world["preempt"].attempt
    assert (attempt["first_scheduled_at"], attempt["first_token_at"], attempt["last_token_at"]) == (at(10), at(20), at(90))
    assert (attempt["recompute_tokens"], attempt["rejected_draft_tokens"]) == (34, 8)
    assert world["split"].of_attempts("recompute_tokens", "rejected_draft_tokens") == [(None, None)]


def test_an_attempt_that_never_left_the_queue_has_no_token(world: World) -> None:
    attempt = world["queued"].attempt
    assert (attempt["first_scheduled_at"], attempt["first_token_at"], attempt["last_token_at"], attempt["legs"]) == (at(90), None, None, [])
    assert attempt["outcome"] == "failed"


def test_engine_stages_that_hang_on_the_request_belong_to_its_only_attempt(world: World) -> None:
    assert world["loose"].of_attempts("first_scheduled_at", "first_token_at", "last_token_at") == [(at(10), at(20), at(90))]
