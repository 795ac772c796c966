"""Records of each stack, imported and assembled. The right readings are worked out by hand from the records in tests/records.py."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from collectors.content import ContentFilter, content_keys
from collectors.records import call_of
from collectors.records.spans import trace_request
from pipeline.store.client import Store
from tests.conftest import empty
from tests.ingest import ingest
from tests.records import DYNAMO, ENVOY, LITELLM, SGLANG, SPEND, changed
from tests.sql.captures import assembled, configure, only
from tests.sql.spans import stored, vllm_request

MS = 1_000_000
CONTENT = ContentFilter(content_keys())
Row = dict[str, Any]
Rows = list[Row]

ONE_WORKER = changed(
    DYNAMO, request__request_id="d-89", request__x_request_id="gw-89", request__worker={"decode_worker_id": 7, "decode_dp_rank": 1}
)
SGLANG_ENDS: dict[str, Any] = {
    "sglang: client left": {"type": "abort", "message": "Abort in waiting queue"},
    "sglang: refused": {"type": "abort", "message": "too long", "status_code": 400, "err_type": "BadRequestError"},
    "sglang: reason as JSON": '{"type": "stop", "matched": 2}',
    "sglang: reason as a word": "stop",
}
NO_TOKENS = {
    "status": "failure", "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0,
    "metadata__usage_object": {"prompt_tokens": 0, "completion_tokens": 0},
}  # fmt: skip


def litellm(name: str, **fields: Any) -> Row:
    return changed(LITELLM, **{"id": name, "litellm_call_id": name, **fields})


def envoy(name: str, **fields: Any) -> Row:
    return {**ENVOY, "x-request-id": name, **{key.replace("__", "."): value for key, value in fields.items()}}


CASES: dict[str, Row] = {
    "dynamo": DYNAMO,
    "dynamo: one worker": ONE_WORKER,
    "sglang": SGLANG,
    **{name: changed(SGLANG, id=name, finish_reason=finish) for name, finish in SGLANG_ENDS.items()},
    "litellm": LITELLM,
    "litellm: not streamed": litellm("a", stream=False, completionStartTime=1790000002.366),
    "spend log: not streamed": changed(SPEND, request_id="b", litellm_call_id="b", completionStartTime="2026-09-21 14:13:22.366"),
    "spend log: answer from the cache": changed(SPEND, request_id="c", litellm_call_id="c", cache_hit="True", metadata="{}", spend=0),
    "litellm: failed": litellm("d", **NO_TOKENS, error_information={"error_code": "500", "error_class": "InternalServerError"}),
    "litellm: refused": litellm(
        "e", **NO_TOKENS, api_base="", model_id=None, custom_llm_provider=None,
        error_information={"error_code": "429", "error_class": "RateLimitError"},
    ),
    "litellm: client left": litellm("f", error_information={"error_code": "499", "error_class": "ClientDisconnected"}),
    "litellm: first try": litellm("g", **NO_TOKENS, startTime=1789999990.0, endTime=1789999991.0, error_information={"error_code": "503"}),
    "litellm: second try": litellm("g", **NO_TOKENS, startTime=1789999992.0, endTime=1789999993.0, error_information={"error_code": "503"}),
    "envoy": envoy("gw-1"),
    "envoy: 429 of its own": envoy("gw-2", response_code=429, gen_ai__provider__name="-"),
    "envoy: 429 of a backend": envoy("gw-3", response_code=429),
    "envoy: nobody healthy": envoy("gw-4", response_code=503, response_flags="UH"),
    "envoy: client left": envoy("gw-5", response_code=0, response_flags="DC"),
}  # fmt: skip


def body(*rows: Mapping[str, Any], **resource: str) -> bytes:
    calls = [call_of(row, CONTENT.is_content) for row in rows]
    return trace_request(calls, {key.replace("__", "."): value for key, value in resource.items()}).SerializeToString()


def trace_id(row: Row) -> bytes:
    span = trace_request([call_of(row, CONTENT.is_content)], {}).resource_spans[0].scope_spans[0].spans[0]
    return bytes(span.trace_id)


@dataclass(frozen=True)
class Reading:
    """All cases, assembled once: the request and the attempts of each, and times of its first attempt (ms after the records' beginning)."""

    requests: dict[str, Row]
    attempts: dict[str, Rows]
    times_ms: dict[str, tuple[float | None, ...]]

    def only(self, case: str, *columns: str) -> tuple[Any, ...]:
        return only([self.requests[case]], *columns)[0]


@pytest.fixture(scope="module")
def reading(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> Reading:
    empty(engine)
    ingest(engine, [body(row, service__name=name.partition(":")[0] + "-0") for name, row in CASES.items()])
    requests, attempts = assembled(engine, configure(engine, tmp_path_factory.mktemp("config")))
    traces = {trace_id(row).hex(): name for name, row in CASES.items()}
    assert len(requests) == len(traces) == len(CASES)
    told = ", ".join(
        f"(toUnixTimestamp64Nano({column}) - 1790000000000000000) / 1000000"
        for column in ("first_scheduled_at", "first_token_at", "last_token_at")
    )
    times = engine.query(f"SELECT substring(request_id, 1, 32), {told} FROM work_attempts WHERE attempt_no = 1").rows
    by_name: dict[str, Rows] = {name: [] for name in CASES}
    for attempt in attempts:
        by_name[traces[attempt["request_id"][:32]]].append(attempt)
    return Reading(
        {traces[request["request_id"][:32]]: request for request in requests}, by_name, {traces[row[0]]: tuple(row[1:]) for row in times}
    )


def read(store: Store, directory: Path, *rows: Mapping[str, Any]) -> tuple[Rows, Rows]:
    ingest(store, [body(*rows)])
    return assembled(store, configure(store, directory))


def test_dynamo_prefill_and_decode_workers(reading: Reading) -> None:
    """4096 in, of which 3072 cached; 128 out. 14 ms wait, prefill until the first token at 110 ms on worker 1, then worker 7 until 2100."""
    assert reading.only(
        "dynamo", "tenant", "model", "input_tokens", "input_cache_read_tokens", "input_uncached_tokens", "output_tokens", "outcome"
    ) == ("unknown", "m-x", 4096, 3072, 1024, 128, "useful")
    assert reading.only("dynamo", "e2e_ns", "ttft_ns", "queue_ns", "attempts", "client_request_id", "response_id", "task_id") == (
        2100 * MS, 110 * MS, 14 * MS, 1, "gw-88", "d-88", "s-17:worker",
    )  # fmt: skip
    request, attempt = reading.requests["dynamo"], reading.attempts["dynamo"][0]
    assert request["stage_ns"] == {"schedule": 14 * MS, "prefill": 96 * MS, "decode": 1990 * MS, "other": 0}
    assert [request["stage_quality"][stage] for stage in ("schedule", "prefill", "decode")] == ["attribute", "attribute", "derived"]
    start = request["started_at"]
    legs = [tuple(leg.values()) if isinstance(leg, dict) else tuple(leg) for leg in attempt["legs"]]
    assert [(replica, phase, (first - start).total_seconds(), (last - start).total_seconds()) for replica, phase, first, last in legs] == [
        ("1", "prefill", 0.014, 0.110),
        ("7", "decode", 0.110, 2.100),
    ]


def test_dynamo_on_one_worker(reading: Reading) -> None:
    assert reading.only("dynamo: one worker", "input_tokens", "output_tokens", "ttft_ns", "e2e_ns") == (4096, 128, 110 * MS, 2100 * MS)
    assert only(reading.attempts["dynamo: one worker"], "replica", "attempt_no") == [("7/1", 1)]
    assert reading.times_ms["dynamo: one worker"] == (14, 110, 2100)


def test_sglang(reading: Reading) -> None:
    """2048 in, half of it cached; 64 out, 16 of them reasoning. First token after 300 ms: 90 in the queue, 190 from the
    forward pass on, 20 before both; 1580 ms in all."""
    assert reading.only("sglang", "input_tokens", "input_cache_read_tokens", "output_tokens", "output_reasoning_tokens") == (
        2048,
        1024,
        64,
        16,
    )
    assert reading.only("sglang", "tenant", "model", "e2e_ns", "ttft_ns", "queue_ns", "finish_reason", "streamed", "outcome") == (
        "unknown", "unknown", 1580 * MS, 300 * MS, 90 * MS, "length", 1, "useful",
    )  # fmt: skip
    assert only(reading.attempts["sglang"], "replica", "response_id") == [("sglang-0", "9b1e77aa42")]
    assert {stage: ns for stage, ns in reading.requests["sglang"]["stage_ns"].items() if stage != "other"} == {
        "tokenize": 20 * MS,
        "schedule": 90 * MS,
        "prefill": 190 * MS,
        "decode": 1280 * MS,
    }
    assert reading.times_ms["sglang"] == (360, 550, 1830)


@pytest.mark.parametrize(
    ("case", "outcome", "status"),
    [
        ("sglang: client left", "aborted", None),
        ("sglang: refused", "failed", 400),
        ("sglang: reason as JSON", "useful", None),
        ("sglang: reason as a word", "useful", None),
    ],
)
def test_sglang_ends(reading: Reading, case: str, outcome: str, status: int | None) -> None:
    assert reading.only(case, "outcome", "http_status") == (outcome, status)


def test_litellm_payload(reading: Reading) -> None:
    """1536 in, 1024 of them cached; 96 out, 32 of them reasoning. Streamed: first chunk after 470 ms of 2366."""
    assert reading.only("litellm", "tenant", "tenant_source", "model", "response_model", "provider", "task_id", "response_id") == (
        "team-red", "gateway", "gpt-x", "gpt-x-2026-08-06", "openai", "s-17", "chatcmpl-7f3c",
    )  # fmt: skip
    assert reading.only(
        "litellm", "input_tokens", "input_cache_read_tokens", "input_uncached_tokens", "output_tokens", "output_text_tokens",
        "output_reasoning_tokens", "usage_source",
    ) == (1536, 1024, 512, 96, 64, 32, "provider")  # fmt: skip
    assert reading.only("litellm", "e2e_ns", "ttft_ns", "streamed", "delivery", "outcome", "attempts") == (
        2366 * MS, 470 * MS, 1, "assumed", "useful", 1,
    )  # fmt: skip


def test_litellm_without_streaming_has_no_time_to_the_first_token(reading: Reading) -> None:
    assert reading.only("litellm: not streamed", "ttft_ns", "streamed") == (None, 0)
    assert reading.only("spend log: not streamed", "ttft_ns", "streamed") == (None, None)


def test_litellm_answer_from_its_own_cache_is_no_prompt_cache_hit(reading: Reading) -> None:
    assert reading.only("spend log: answer from the cache", "input_tokens", "input_cache_read_tokens") == (1536, None)


def test_litellm_failure_has_unknown_tokens(reading: Reading) -> None:
    assert reading.only(
        "litellm: failed", "outcome", "http_status", "error_type", "input_tokens", "output_tokens", "attempts", "failed_attempts"
    ) == ("failed", 500, "InternalServerError", None, None, 1, 1)
    assert only(reading.attempts["litellm: failed"], "outcome", "usage_state") == [("failed", "unknown")]


def test_litellm_refused_before_any_attempt(reading: Reading) -> None:
    assert reading.only("litellm: refused", "outcome", "http_status", "tenant", "attempts") == ("rejected", 429, "team-red", 0)
    assert reading.attempts["litellm: refused"] == []


def test_litellm_tries_of_one_call_are_told_apart(reading: Reading) -> None:
    assert reading.only("litellm: first try", "outcome", "request_id") != reading.only("litellm: second try", "outcome", "request_id")
    assert reading.only("litellm: first try", "outcome", "e2e_ns") == ("failed", 1000 * MS)


def test_litellm_client_that_left(reading: Reading) -> None:
    assert reading.only("litellm: client left", "outcome", "delivery", "output_tokens") == ("aborted", "partial", 96)


def test_envoy(reading: Reading) -> None:
    """Numbers are strings, `-` is missing: the split of the output is unknown."""
    assert reading.only("envoy", "tenant", "model", "provider", "task_id", "client_request_id") == (
        "acme", "m-x", "vllm-pool.default", "s-17", "gw-1",
    )  # fmt: skip
    assert reading.only("envoy", "input_tokens", "output_tokens", "output_reasoning_tokens") == (1536, 96, None)
    assert reading.only("envoy", "e2e_ns", "ttft_ns", "http_status", "outcome") == (2371 * MS, None, 200, "useful")


@pytest.mark.parametrize(
    ("case", "outcome", "attempts"),
    [
        ("envoy: 429 of its own", "rejected", 0),
        ("envoy: 429 of a backend", "failed", 1),
        ("envoy: nobody healthy", "failed", 0),
        ("envoy: client left", "aborted", 1),
    ],
)
def test_envoy_ends(reading: Reading, case: str, outcome: str, attempts: int) -> None:
    assert reading.only(case, "outcome", "attempts") == (outcome, attempts)


def test_payload_and_spend_log_of_one_call_are_one_request(store: Store, tmp_path: Path) -> None:
    requests, _ = read(store, tmp_path, SPEND)
    told = ("request_id", "tenant", "model", "input_tokens", "input_cache_read_tokens", "output_tokens", "e2e_ns", "ttft_ns")
    alone = only(requests, *told)
    assert alone[0][1:] == ("team-red", "gpt-x", 1536, 1024, 96, 2366 * MS, 470 * MS)
    ingest(store, [body(LITELLM)], first_offset=1)
    both, _ = assembled(store, configure(store, tmp_path))
    assert only(both, *told) == alone


def test_an_envoy_row_and_a_dynamo_row_of_one_call_are_one_request(store: Store, tmp_path: Path) -> None:
    """Joined by x-request-id: the tenant is the gateway's, workers and first token are Dynamo's; the gateway's usage bills."""
    requests, attempts = read(store, tmp_path, ENVOY, DYNAMO)
    assert only(requests, "tenant", "input_tokens", "output_tokens", "e2e_ns", "ttft_ns", "attempts") == [
        ("acme", 1536, 96, 2371 * MS, 110 * MS, 1)
    ]
    assert len(attempts) == 1
    assert {name: requests[0]["stage_ns"][name] for name in ("schedule", "prefill", "decode")} == {
        "schedule": 14 * MS,
        "prefill": 96 * MS,
        "decode": 1990 * MS,
    }


def test_an_engine_span_joins_the_record_of_its_gateway(store: Store, tmp_path: Path) -> None:
    """By the response id: the tenant, the model and the split of the tokens are LiteLLM's, the replica and its times are vLLM's."""
    began_ns = 1_790_000_000_010_000_000
    engine = vllm_request(
        "e", "e", 0, 2340, input=1536, output=96, started_ns=began_ns,
        gen_ai__request__id="chatcmpl-7f3c", gen_ai__latency__time_to_first_token=0.45,
    )  # fmt: skip
    stored(store, [engine])
    requests, attempts = read(store, tmp_path, LITELLM)
    assert only(requests, "tenant", "model", "input_tokens", "input_cache_read_tokens", "output_tokens", "ttft_ns", "attempts") == [
        ("team-red", "gpt-x", 1536, 1024, 96, 470 * MS, 1)
    ]
    assert only(attempts, "replica", "usage_source") == [("engine-a", "provider")]
    assert attempts[0]["raw_usage"]["engine/gen_ai.usage.prompt_tokens"] == 1536


def test_importing_twice_changes_nothing(store: Store, tmp_path: Path) -> None:
    rows = (DYNAMO, SGLANG, LITELLM, ENVOY)
    once, attempts = read(store, tmp_path, *rows)
    ingest(store, [body(*rows), body(LITELLM)], first_offset=1, received_ns=1_796_090_000_000_000_000)
    assert assembled(store, configure(store, tmp_path)) == (once, attempts)


def test_a_w3c_trace_is_kept() -> None:
    request = trace_request([call_of({**ENVOY, "traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}, CONTENT.is_content)], {})
    top, inner = request.resource_spans[0].scope_spans[0].spans
    assert (top.trace_id.hex(), top.parent_span_id.hex(), top.name) == ("ab" * 16, "cd" * 8, "request")
    assert (inner.trace_id, inner.parent_span_id) == (top.trace_id, top.span_id)


@pytest.mark.parametrize("row", [LITELLM, SGLANG])
def test_prompts_and_answers_are_dropped(row: Row) -> None:
    value = body(row)
    assert b"SECRET" not in value
    assert b"sampling_params.max_new_tokens" in value or b"usage_object" in value
