"""Spans of a real vLLM 0.33 (tests/data/otlp/vllm/README.md). Readings worked out by hand from the README and the attributes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.store.client import Store
from tests.conftest import empty
from tests.ingest import ingest
from tests.sql.captures import assembled, bodies, configure, only

INVENTORY = """
[[replica]]
id = "llama70b-0"
match = { "service.name" = "vllm-a" }
model = "llama-3.3-70b"
gpu = "h100-sxm"
gpus = 4
precision = "fp8"
efficiency = { compute = "0.45", memory = "0.70" }
prefill_budget_tokens = 8192
from = 2026-11-01T00:00:00Z
"""


Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Reading:
    """Of the capture, assembled once; `exact`: times of the attempts in ns, by column (Python's datetime ends at microseconds)."""

    requests: Rows
    attempts: Rows
    exact: dict[str, list[int]]


@pytest.fixture(scope="module")
def reading(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> Reading:
    empty(engine)
    ingest(engine, bodies("vllm"))
    requests, attempts = assembled(engine, configure(engine, tmp_path_factory.mktemp("config")))
    columns = ("started_at", "first_scheduled_at", "first_token_at", "last_token_at")
    exact = engine.query(
        "SELECT toUnixTimestamp64Nano(started_at), toUnixTimestamp64Nano(first_scheduled_at), toUnixTimestamp64Nano(first_token_at),"
        " toUnixTimestamp64Nano(last_token_at) FROM work_attempts ORDER BY started_at, attempt_id"
    ).rows
    return Reading(requests, attempts, {column: [row[n] for row in exact] for n, column in enumerate(columns)})


def test_seven_requests_each_prompt_once(reading: Reading) -> None:
    requests, attempts = reading.requests, reading.attempts
    assert only(requests, "client_request_id", "input_tokens", "output_tokens", "attempts") == [
        ("chatcmpl-gw-0001", 1536, 96, 1),
        ("chatcmpl-gw-0002", 800, 32, 1),
        ("chatcmpl-gw-0003", 200, 20 + 12, 1),  # n = 2: two spans with the whole prompt each
        ("chatcmpl-gw-0005", 1000, 16, 1),  # 0004 was aborted: vLLM writes no span
        ("chatcmpl-gw-0006", 50, 1, 1),
        ("chatcmpl-gw-0007", 300, 64, 1),
        ("chatcmpl-gw-0008", 120, 1, 1),  # ended with an error that the span does not show
    ]
    assert sum(row["input_tokens"] for row in attempts) == 4006 and sum(row["output_tokens"] for row in attempts) == 242


def test_what_the_engine_does_not_tell_is_unknown(reading: Reading) -> None:
    requests, attempts = reading.requests, reading.attempts
    assert set(only(requests, "tenant", "tenant_source", "model", "provider", "input_cache_read_tokens", "output_reasoning_tokens")) == {
        ("unknown", "unknown", "unknown", "unknown", None, None)
    }
    assert set(only(requests, "usage_source", "usage_state", "delivery", "outcome", "finish_reason", "streamed")) == {
        ("engine", "reported", "assumed", "useful", "", None)
    }
    assert all({"split_unknown", "replica_unlisted"} <= set(row["flags"]) for row in attempts)
    assert {row["replica"] for row in attempts} == {"a06f618a-eb11-4770-85eb-8fda2e5be60a"}  # its service.instance.id


def test_an_inventory_row_names_replica_and_model(store: Store, tmp_path: Path) -> None:
    ingest(store, bodies("vllm"))
    _, attempts = assembled(store, configure(store, tmp_path, {"inventory.toml": INVENTORY}))
    assert set(only(attempts, "replica", "model")) == {("llama70b-0", "llama-3.3-70b")}
    assert not any("replica_unlisted" in row["flags"] for row in attempts)
    assert [leg["replica"] for leg in attempts[0]["legs"]] == ["llama70b-0", "llama70b-0"]


def test_times_are_laid_from_the_spans_start(reading: Reading) -> None:
    started = reading.exact["started_at"][0]
    # 0001: ttft 0.07050514221191406 s, prefill 0.050367338999876665 s, decode 0.4012398929999108 s, each rounded to a ns
    assert reading.exact["first_token_at"][0] == started + 70_505_142
    assert reading.exact["first_scheduled_at"][0] == started + 70_505_142 - 50_367_339
    assert reading.exact["last_token_at"][0] == started + 70_505_142 + 401_239_893


def test_time_per_output_token_is_null_for_one_token(reading: Reading) -> None:
    requests = reading.requests
    assert requests[0]["tpot_ns"] == 401_239_893 // 95
    assert requests[5]["tpot_ns"] == 86_972_056 // 63  # three tokens a step
    assert [row["tpot_ns"] for row in requests if row["output_tokens"] == 1] == [None, None]


def test_time_before_the_queue_is_derived_where_it_is_not_negative(reading: Reading) -> None:
    requests = reading.requests
    # 0002: 70,642,710 - 20,237,658 - 50,395,496 = 9,556 ns; 0001: 70,505,142 - 20,160,061 - 50,367,339 < 0 (two clocks)
    assert requests[1]["stage_ns"]["tokenize"] == 9_556 and requests[1]["stage_quality"]["tokenize"] == "derived"
    assert "tokenize" not in requests[0]["stage_ns"]
    assert requests[0]["stage_ns"]["schedule"] == requests[0]["queue_ns"] == 20_160_061
    assert requests[0]["stage_quality"]["decode"] == "attribute"


def test_siblings_are_one_attempt_from_the_first_start_to_the_last_end(reading: Reading) -> None:
    requests, attempts = reading.requests, reading.attempts
    pair, run = requests[2], attempts[[row["request_id"] for row in attempts].index(requests[2]["request_id"])]
    assert pair["request_id"] == "0af7651916cd43dd8448eb211c80319c-" + pair["root_span_id"].hex()
    assert pair["request_id"].endswith("56904") and pair["request_id"] == run["attempt_id"]  # the earlier of the two spans
    assert pair["e2e_ns"] == 276_153_454  # 6,812,228,206 - 6,536,074,752
    assert pair["ended_at"] - pair["started_at"] > timedelta(milliseconds=276)
    assert isinstance(run["last_token_at"], datetime)
    # The second child began 46,080 ns after the first (….536120832 and ….536074752); its first token came 0.2276782989501953 s later, its
    # last 0.047895533999962936 s after that.
    assert reading.exact["last_token_at"][2] == reading.exact["started_at"][2] + 46_080 + 227_678_299 + 47_895_534


def test_stages_and_other_add_up(reading: Reading) -> None:
    requests = reading.requests
    assert [sum(row["stage_ns"].values()) for row in requests] == [row["e2e_ns"] for row in requests]


def test_a_second_delivery_changes_nothing(store: Store, tmp_path: Path, reading: Reading) -> None:
    ingest(store, bodies("vllm"))
    ingest(store, bodies("vllm"), first_offset=100)
    assert assembled(store, configure(store, tmp_path)) == (reading.requests, reading.attempts)
