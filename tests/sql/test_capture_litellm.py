"""Twelve requests through a real LiteLLM proxy (tests/data/otlp/litellm-otel-v2/README.md). Every reading below is worked out by hand from
what was done there; nothing is copied from the program's own output."""

import random
from pathlib import Path
from typing import Any

import pytest

from pipeline.store.client import Store
from tests.conftest import empty
from tests.ingest import ingest
from tests.sql.captures import assembled, bodies, configure, only

CAPTURE = "litellm-otel-v2"

# id: tenant, model, input, cached, output, streamed, outcome, delivery, attempts, failed attempts
READINGS = {
    1: ("team-red", "mock-plain", 10, None, 20, 0, "useful", "confirmed", 1, 0),  # the mock says nothing of cached tokens
    2: ("team-blue", "mock-plain", 11, None, 8, 1, "useful", "assumed", 1, 0),
    3: ("team-red", "gpt-stub", 120, 0, 40, 0, "useful", "confirmed", 1, 0),
    4: ("team-blue", "gpt-stub-cached", 2048, 1536, 64, 0, "useful", "confirmed", 1, 0),
    5: ("team-blue", "gpt-stub-reason", 512, 256, 300, 1, "useful", "assumed", 1, 0),
    6: ("team-red", "gpt-stub-reason", 512, 256, 300, 1, "useful", "assumed", 1, 0),
    7: ("team-red", "gpt-flaky", 120, 0, 40, 0, "useful", "confirmed", 2, 1),
    8: ("team-blue", "gpt-stub", 120, 0, 40, 0, "useful", "confirmed", 3, 2),  # asked for gpt-dead, answered by the fallback
    9: ("team-red", "nope", None, None, None, None, "rejected", "none", 0, 0),
    10: ("unknown", "gpt-stub", None, None, None, None, "rejected", "none", 0, 0),
    11: (
        "team-blue",
        "gpt-stub-slow",
        11,
        0,
        5,
        1,
        "useful",
        "assumed",
        1,
        0,
    ),  # the client left; no span shows it, so it is never `confirmed`
    12: ("team-red", "gpt-stub", 120, 0, 40, 0, "useful", "confirmed", 1, 0),
}


Reading = tuple[list[dict[str, Any]], list[dict[str, Any]]]


@pytest.fixture
def config_hash(store: Store, tmp_path: Path) -> str:
    return configure(store, tmp_path)


@pytest.fixture(scope="module")
def reading(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> Reading:
    """(requests, attempts) of the capture, assembled once."""
    empty(engine)
    ingest(engine, bodies(CAPTURE))
    return assembled(engine, configure(engine, tmp_path_factory.mktemp("config")))


def test_each_request_is_read_as_it_was_made(reading: Reading) -> None:
    requests, _ = reading
    columns = (
        "tenant", "model", "input_tokens", "input_cache_read_tokens", "output_tokens", "streamed", "outcome", "delivery",
        "attempts", "failed_attempts",
    )  # fmt: skip
    assert dict(enumerate(only(requests, *columns), start=1)) == READINGS


def test_what_no_span_tells_is_unknown_and_not_zero(reading: Reading) -> None:
    requests, attempts = reading
    assert {row["output_reasoning_tokens"] for row in requests + attempts} == {None}  # two answers had 220, told only in logs
    assert all("split_unknown" in row["flags"] for row in requests if row["output_tokens"] is not None)
    assert only(requests[8:10], "usage_state", "usage_source", "output_text_tokens") == [("unknown", "none", None)] * 2
    assert [row["tenant_source"] for row in requests] == ["gateway"] * 9 + ["unknown"] + ["gateway"] * 2
    assert {row["replica"] for row in attempts} == {""}  # gateway spans name no replica
    assert {row["tpot_ns"] for row in requests} == {None}


def test_tenants_add_up_to_what_the_stub_was_asked(reading: Reading) -> None:
    requests, _ = reading
    sums = {
        tenant: [sum(row[column] or 0 for row in requests if row["tenant"] == tenant) for column in columns]
        for columns in (("input_tokens", "output_tokens", "input_cache_read_tokens"),)
        for tenant in ("team-red", "team-blue")
    }
    assert sums == {"team-red": [882, 440, 256], "team-blue": [2691 + 11, 412 + 5, 1792]}  # + the gateway's own count of request 11


def test_thirteen_attempts_of_which_three_failed(reading: Reading) -> None:
    requests, attempts = reading
    assert len(attempts) == 13 and [row["outcome"] for row in attempts].count("failed") == 3
    fallback = [row for row in attempts if row["request_id"] == requests[7]["request_id"]]
    assert only(fallback, "attempt_no", "model", "outcome", "http_status", "usage_state", "input_tokens", "output_tokens") == [
        (1, "gpt-dead", "failed", 503, "reported", 0, 0),
        (2, "gpt-dead", "failed", None, "unknown", None, None),  # only its `route` span shows it
        (3, "gpt-stub", "useful", None, "reported", 120, 40),
    ]
    # The span of the fallback begins with the first attempt; its own `route` span shows when it really began.
    assert (fallback[2]["ended_at"] - fallback[2]["started_at"]).total_seconds() < 0.1
    retry = [row for row in attempts if row["request_id"] == requests[6]["request_id"]]
    assert only(retry, "outcome", "delivery", "delivered_tokens") == [("failed", "none", 0), ("useful", "confirmed", 40)]


def test_one_count_under_two_names_is_counted_once_and_both_are_kept(reading: Reading) -> None:
    _, attempts = reading
    cached = next(row for row in attempts if row["model"] == "gpt-stub-cached")
    assert cached["input_tokens"] == 2048 and cached["input_uncached_tokens"] == 512
    assert cached["raw_usage"] == {
        "gateway/gen_ai.usage.input_tokens": 2048,
        "gateway/gen_ai.usage.prompt_tokens": 2048,
        "gateway/gen_ai.usage.output_tokens": 64,
        "gateway/gen_ai.usage.completion_tokens": 64,
        "gateway/gen_ai.usage.cache_read.input_tokens": 1536,
    }


def test_time_to_first_token_is_counted_from_the_gateway(reading: Reading) -> None:
    requests, _ = reading
    # Request 05: its chat span starts 12,595,205 ns after the gateway's, its first chunk comes 0.030361175537109375 s later.
    assert requests[4]["ttft_ns"] == 12_595_205 + 30_361_176
    assert requests[4]["stage_quality"]["ttft"] == "attribute"
    assert [row["ttft_ns"] is not None for row in requests] == [bool(reading[5]) for reading in READINGS.values()]


def test_stages_and_other_add_up_to_each_requests_time(reading: Reading) -> None:
    requests, _ = reading
    for row in requests:
        assert sum(row["stage_ns"].values()) == row["e2e_ns"] == (row["stage_ns"]["gateway"] + sum(
            value for stage, value in row["stage_ns"].items() if stage != "gateway"
        ))  # fmt: skip
    # Request 03: auth and route as their spans; the call, 42,701,824 ns, is no stage: nobody says what happened in it.
    assert requests[2]["stage_ns"] == {
        "auth": 730_864, "route": 525_865, "other": 42_701_824, "gateway": 61_047_990 - 730_864 - 525_865 - 42_701_824,
    }  # fmt: skip


def test_the_order_of_arrival_and_a_second_delivery_change_nothing(store: Store, config_hash: str, reading: Reading) -> None:
    messages = bodies(CAPTURE)
    shuffled = messages * 2
    random.Random(5).shuffle(shuffled)
    ingest(store, shuffled, first_offset=100)
    assert assembled(store, config_hash) == reading
    assert assembled(store, config_hash) == reading


def test_a_trace_id_and_an_absent_parent_that_two_stacks_share_make_no_common_request(
    store: Store, config_hash: str, reading: Reading
) -> None:
    """LiteLLM's request 12 and vLLM's 0003 got the same traceparent from the caller; its span was never sent."""
    alone, _ = reading
    ingest(store, bodies(CAPTURE))
    ingest(store, bodies("vllm"), first_offset=100)
    both, _ = assembled(store, config_hash)
    shared = [row for row in both if row["request_id"].startswith("0af7651916cd43dd8448eb211c80319c")]
    assert only(shared, "tenant", "input_tokens", "output_tokens", "attempts") == [("unknown", 200, 32, 1), ("team-red", 120, 40, 1)]
    assert [row for row in both if row["tenant_source"] == "gateway"] == [row for row in alone if row["tenant_source"] == "gateway"]
