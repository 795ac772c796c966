"""Twelve requests through a real LiteLLM proxy with its older integration (tests/data/otlp/litellm-otel-v1/README.md). Every reading is
worked out by hand from what was done there and from what its spans can tell at all."""

import random
from pathlib import Path
from typing import Any

import pytest

from pipeline.store.client import Store
from tests.conftest import empty
from tests.ingest import ingest
from tests.sql.captures import assembled, bodies, configure, only
from tests.sql.spans import span, stored

CAPTURE = "litellm-otel-v1"

# id: tenant, model, input, output, streamed, outcome
READINGS = {
    1: ("team-red", "unknown", None, None, None, "unmetered"),  # the raw call alone is left, of a mock that names nothing
    2: ("team-blue", "mock-plain", 11, 8, 1, "useful"),
    3: ("team-red", "gpt-stub-2026-09-01", None, None, None, "unmetered"),  # 120 and 40 stand in a Python repr, which is no number
    4: ("team-blue", "gpt-stub-cached-2026-09-01", None, None, None, "unmetered"),
    5: ("team-blue", "gpt-stub-reason", 512, 300, 1, "useful"),
    6: ("team-red", "gpt-stub-reason", 512, 300, 1, "useful"),
    7: ("team-red", "gpt-stub-flaky-2026-09-01", None, None, None, "unmetered"),  # answered at the second try
    8: ("team-blue", "gpt-stub-2026-09-01", None, None, None, "unmetered"),  # answered by the fallback
    9: ("unknown", "unknown", None, None, None, "rejected"),
    10: ("unknown", "unknown", None, None, None, "rejected"),
    11: (
        "team-blue",
        "gpt-stub-slow",
        11,
        5,
        1,
        "failed",
    ),  # the client left: status 200 and a ConnectionError; what was counted is an estimate
    12: ("team-red", "gpt-stub", 120, 40, 0, "useful"),
}

Reading = tuple[list[dict[str, Any]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def reading(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> Reading:
    """(requests, attempts) of the capture, assembled once."""
    empty(engine)
    ingest(engine, bodies(CAPTURE))
    return assembled(engine, configure(engine, tmp_path_factory.mktemp("config")))


def test_each_request_is_read_as_far_as_its_spans_tell(reading: Reading) -> None:
    columns = ("tenant", "model", "input_tokens", "output_tokens", "streamed", "outcome")
    assert dict(enumerate(only(reading[0], *columns), start=1)) == READINGS


def test_a_call_is_counted_once_beside_its_raw_span(reading: Reading) -> None:
    """Five spans carry usage, 1166 and 653 together; each has a raw_gen_ai_request inside."""
    requests, attempts = reading
    assert len(attempts) == 10 and {row["attempts"] for row in requests if row["outcome"] != "rejected"} == {1}
    for rows in reading:
        assert [sum(row[column] or 0 for row in rows) for column in ("input_tokens", "output_tokens")] == [1166, 653]


def test_what_no_span_tells_is_unknown_and_not_zero(reading: Reading) -> None:
    requests, attempts = reading
    assert {row["output_reasoning_tokens"] for row in requests + attempts} == {None}  # two answers had 220
    assert {row["input_cache_read_tokens"] for row in requests + attempts} == {None}
    assert {row["usage_state"] for row in requests if row["outcome"] == "unmetered"} == {"unknown"}


def test_finish_reasons_are_a_json_string_trap_4(reading: Reading) -> None:
    told = {row["finish_reason"] for row in reading[0] if row["output_tokens"] is not None}
    assert told == {"stop"}  # '["stop"]' on the spans


def test_a_reused_trace_id_with_a_traceparent_from_outside(reading: Reading) -> None:
    last = reading[0][-1]
    assert last["request_id"].startswith("0af7651916cd43dd8448eb211c80319c")
    assert last["response_id"] == "chatcmpl-stub0118"


def test_the_documented_tree_without_fastapis_own_spans(store: Store, tmp_path: Path) -> None:
    """Received Proxy Server Request > litellm_request > raw_gen_ai_request: one request with a gateway of its own, one attempt."""
    team: dict[str, Any] = {"scope": "litellm", "metadata__user_api_key_team_id": "team-red", "metadata__user_api_key_hash": "h"}
    usage: dict[str, Any] = {"gen_ai__usage__input_tokens": 90, "gen_ai__usage__output_tokens": 7}
    stored(
        store,
        [
            span("v1", "server", "Received Proxy Server Request", 0, 100, http__response__status_code=200, **team),
            span("v1", "call", "litellm_request", 10, 95, "server", litellm__model_group="m", llm__is_streaming="False", **usage, **team),
            span("v1", "raw", "raw_gen_ai_request", 12, 94, "call", llm__openai__id="chatcmpl-9", llm__openai__model="m-1", **team),
        ],
    )  # fmt: skip
    requests, attempts = assembled(store, configure(store, tmp_path))
    told = ("tenant", "model", "input_tokens", "output_tokens", "outcome", "delivery", "attempts")
    assert only(requests, *told) == [("team-red", "m", 90, 7, "useful", "confirmed", 1)]
    assert only(attempts, "response_id", "response_model") == [("chatcmpl-9", "m-1")]
    assert requests[0]["stage_ns"] == {"gateway": 15_000_000, "other": 85_000_000}


def test_the_order_of_arrival_and_a_second_delivery_change_nothing(store: Store, tmp_path: Path, reading: Reading) -> None:
    messages = bodies(CAPTURE) * 2
    random.Random(5).shuffle(messages)
    ingest(store, messages)
    assert assembled(store, configure(store, tmp_path)) == reading
