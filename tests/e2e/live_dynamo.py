"""NVIDIA Dynamo's frontend before two of its mocker engines, found through files: no etcd, no NATS, no GPU.

Its spans come over OTLP/gRPC, its request trace as OTLP logs. The mocker's prompt has one token a character (dynamo_model.py), it makes
`max_tokens` tokens, and its prefix cache holds blocks of 64: so the readings are known beforehand and told again in each answer.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.environments import required_python
from tests.e2e.processes import await_answer, server
from tests.e2e.reading import attributed, count, eventually
from tests.processes import Running, free_port, up

MODEL = "mock-model"
PROMPT = "the quick brown fox jumps over the lazy dog " * 20


@pytest.fixture(scope="module")
def python() -> Path:
    return required_python("dynamo")


def settings(root: Path, running: Running) -> dict[str, str]:
    otlp = f"http://{running.grpc}"
    return {
        "DYN_DISCOVERY_BACKEND": "file",
        "DYN_FILE_KV": str(root / "discovery"),
        "DYN_EVENT_PLANE": "zmq",
        "DYN_REQUEST_PLANE": "tcp",
        "DYN_LOGGING_JSONL": "1",
        "DYN_REQUEST_TRACE": "1",
        "DYN_REQUEST_TRACE_SINKS": "otel,file",
        "DYN_REQUEST_TRACE_FILE_FORMAT": "jsonl",
        "DYN_REQUEST_TRACE_FILE_PATH": str(root / "request-trace.jsonl"),
        "OTEL_EXPORT_ENABLED": "1",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": otlp,
        "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": otlp,
        "HF_HUB_OFFLINE": "1",
    }


def ask(base_url: str, request_id: str, tokens: int, **options: Any) -> dict[str, Any]:
    """The usage that the answer tells."""
    body = {"model": MODEL, "max_tokens": tokens, "messages": [{"role": "user", "content": PROMPT}], **options}
    headers = {"x-request-id": request_id}
    with httpx.stream("POST", f"{base_url}/v1/chat/completions", json=body, headers=headers, timeout=60) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith(("data: {", "{"))]
    return next((usage for line in reversed(lines) if (usage := json.loads(line).get("usage"))), {})


Reading = tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]], Path]


@pytest.fixture(scope="module")
def reading(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    """(usages as answered, requests, attempts, request trace file) of four requests; the last names a model that is not there."""
    root = tmp_path_factory.mktemp("dynamo")
    for name in ("config", "model", "discovery"):
        (root / name).mkdir()
    subprocess.run([str(python), str(Path(__file__).with_name("dynamo_model.py")), str(root / "model")], check=True, timeout=120)
    port = free_port()
    frontend = [str(python), "-m", "dynamo.frontend", "--http-port", str(port), "--router-mode", "kv"]
    mocker = [str(python), "-m", "dynamo.mocker", "--model-path", str(root / "model"), "--model-name", MODEL, "--num-workers", "2"]
    with up(root / "data", "--config", str(root / "config")) as running:
        shared = settings(root, running)
        with (
            server(frontend, root, root / "frontend.log", {**shared, "OTEL_SERVICE_NAME": "dynamo-frontend"}) as process,
            server(mocker, root, root / "mocker.log", {**shared, "OTEL_SERVICE_NAME": "dynamo-worker"}),
        ):
            base_url = f"http://127.0.0.1:{port}"
            await_answer(f"{base_url}/v1/models", process, root / "frontend.log", MODEL)
            usages = [
                ask(base_url, "gw-1", 16),
                ask(base_url, "gw-2", 24),
                ask(base_url, "gw-3", 8, stream=True, stream_options={"include_usage": True}),
                ask(base_url, "gw-4", 8, model="nothing-of-that-name"),
            ]
            # While it runs: at its end Dynamo drops the spans of its last seconds.
            eventually(lambda: count(running, "name = 'http-request'") == 4, "the frontend's four spans")
            eventually(lambda: count(running, "scope_name = 'tokenpath.record.dynamo' AND name = 'inference'") == 3, "three records")
        requests, attempts = attributed(running)
        yield usages, requests, attempts, root / "request-trace.jsonl"


def test_each_request_is_one_whether_its_span_or_its_record_tells_of_it(reading: Reading) -> None:
    usages, requests, _, _ = reading
    columns = ("client_request_id", "model", "input_tokens", "input_cache_read_tokens", "output_tokens", "attempts")
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages[:3]]
    assert cached[0] == 0 < cached[1] <= len(PROMPT)
    assert [tuple(row[column] for column in columns) for row in requests[:3]] == [
        ("gw-1", MODEL, len(PROMPT), 0, 16, 1),
        ("gw-2", MODEL, len(PROMPT), cached[1], 24, 1),
        ("gw-3", MODEL, len(PROMPT), cached[2], 8, 1),
    ]
    assert [usage.get("completion_tokens") for usage in usages] == [16, 24, 8, None]


def test_a_request_for_a_model_that_is_not_there_costs_nothing_and_is_not_useful(reading: Reading) -> None:
    _, requests, _, _ = reading
    (refused,) = requests[3:]
    assert (refused["client_request_id"], refused["attempts"], refused["input_tokens"], refused["useful_tokens"]) == ("gw-4", 0, None, 0)
    assert refused["outcome"] in ("failed", "rejected")


def test_stages_are_those_of_the_record_and_add_up(reading: Reading) -> None:
    _, requests, _, _ = reading
    for row in requests[:3]:
        assert {"schedule", "prefill", "decode"} <= row["stage_ns"].keys()
        assert row["stage_ns"]["prefill"] > 0 and row["stage_ns"]["decode"] > 0
        assert sum(row["stage_ns"].values()) == row["e2e_ns"]


def test_an_attempt_ran_on_the_worker_that_the_record_names(reading: Reading) -> None:
    _, _, attempts, trace = reading
    rows = [json.loads(line) for line in trace.read_text().splitlines()]
    events = [row.get("event", row) for row in rows]
    ended = [event["request"] for event in events if event["event_type"] == "request_end"]
    named = sorted(str(request["worker"]["decode_worker_id"]) for request in ended)
    assert sorted(row["replica"] for row in attempts) == named and len(named) == 3
