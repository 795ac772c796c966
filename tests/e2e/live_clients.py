"""The OpenAI client under four instrumentation libraries, each in its own process, against an upstream whose usage is known."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.environments import required_python
from tests.e2e.processes import plain_environment
from tests.e2e.reading import attributed, eventually, query
from tests.e2e.upstream import USAGE, Upstream
from tests.http_server import serving
from tests.processes import Running, up

SCRIPT = Path(__file__).resolve().parent / "client_calls.py"
ENVIRONMENTS = {"openai-v2": "clients", "openinference": "clients", "traceloop": "clients", "openlit": "openlit"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("clients")
    (root / "config").mkdir()
    with up(root / "data", "--config", str(root / "config")) as process:
        yield process


def run_calls(library: str, running: Running) -> Upstream:
    python, upstream = required_python(ENVIRONMENTS[library]), Upstream()
    with serving(upstream.app()) as port:
        command = [str(python), str(SCRIPT), library, f"http://127.0.0.1:{port}/v1", f"http://{running.http}"]
        done = subprocess.run(command, env=plain_environment({}), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return upstream


def read(library: str, running: Running) -> list[dict[str, Any]]:
    """The requests that this library's process made."""
    ours = f"SELECT DISTINCT trace_id FROM spans FINAL WHERE resource['service.name'] = '{library}'"
    eventually(lambda: bool(query(running, ours)), f"spans of {library}")
    traces = {row["trace_id"] for row in query(running, ours)}
    requests, _ = attributed(running)
    return [row for row in requests if row["trace_id"] in traces]


# library: (cached tokens told, reasoning tokens told). What a library does not tell must be read as unknown, never as 0.
TOLD = {"openai-v2": (False, False), "openinference": (True, True), "traceloop": (True, False), "openlit": (True, False)}


def model(row: dict[str, Any]) -> str:
    """OpenInference writes only the answer's model, which has a date."""
    return str(row["model"]).removesuffix("-2026-09-01")


@pytest.mark.parametrize("library", ENVIRONMENTS)
def test_calls_of_a_client_are_read_as_they_were_made(library: str, running: Running) -> None:
    upstream = run_calls(library, running)
    assert [attempt.status for attempt in upstream.attempts] == [200, 200, 200, 200, 503, 200, 429, 200]
    requests = read(library, running)
    columns = ("model", "outcome", "usage_state", "input_tokens", "input_cache_read_tokens", "output_tokens", "output_reasoning_tokens")
    print(*(tuple(row[column] for column in columns) for row in requests), sep="\n")
    if library == "openlit":  # counts the words of an answer whose usage nobody told, and nothing on its span says so
        (counted,) = [row for row in requests if model(row) == "stub-plain" and row["streamed"]]
        assert counted["input_tokens"] != USAGE["stub-plain"].prompt
        requests.remove(counted)
    known = [row for row in requests if row["usage_state"] == "reported"]
    assert [(model(row), row["input_tokens"], row["output_tokens"]) for row in known] == [
        (name, USAGE[name].prompt, USAGE[name].completion) for name in ("stub-plain", "stub-cached", "stub-reason", "stub-flaky")
    ]
    cached_told, reasoning_told = TOLD[library]
    cached = [row["input_cache_read_tokens"] for row in known]
    assert cached == ([0, 1536, 256, 0] if cached_told else [None] * 4)
    assert known[2]["output_reasoning_tokens"] == (220 if reasoning_told else None)
    (failed,) = [row for row in requests if row["outcome"] == "failed"]
    assert failed["useful_tokens"] == 0 and failed["output_tokens"] is None
    assert {row["attempts"] for row in requests} <= {1, 2}  # the client's own retry shows only where its HTTP calls are traced
