"""A LiteLLM proxy from PyPI in front of an upstream whose usage is known: two teams, streams, a retry, a fallback, refusals, an abort.

What the readings must be is known from what was sent and from the upstream's own log; LiteLLM's own blind spots are those of
docs/decisions.md and the README (`What it does not know`): it shows no client that left, and no reasoning tokens.
"""

import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.environments import required_python
from tests.e2e.processes import await_answer, server
from tests.e2e.reading import attributed, bounds, count, eventually
from tests.e2e.upstream import USAGE, Upstream
from tests.http_server import serving
from tests.processes import Running, free_port, up

CONFIG = """\
model_list:
{models}
litellm_settings:
  callbacks: ["otel"]
  num_retries: 1
  fallbacks: [{{"stub-dead": ["stub-plain"]}}]
general_settings:
  custom_auth: litellm_keys.user_api_key_auth
"""
MODEL = """\
  - model_name: {name}
    litellm_params: {{model: openai/{name}, api_base: "http://127.0.0.1:{port}/v1", api_key: not-a-key}}
"""
MODELS = (*USAGE, "stub-dead")


@contextmanager
def proxy(directory: Path, upstream_port: int, **variables: str) -> Iterator[str]:
    """Its base URL. Ended by SIGTERM, so that it flushes its spans."""
    python, port = required_python("litellm"), free_port()
    models = "".join(MODEL.format(name=name, port=upstream_port) for name in MODELS)
    (directory / "config.yaml").write_text(CONFIG.format(models=models))
    shutil.copy(Path(__file__).resolve().parent / "litellm_keys.py", directory)
    ours = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": f"sk-{secrets.token_hex(32)}", "OTEL_BSP_SCHEDULE_DELAY": "200"}
    command = [str(python.with_name("litellm")), "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    log = directory / "litellm.log"
    with server(command, directory, log, {**ours, **variables}) as process:
        await_answer(f"http://127.0.0.1:{port}/health/liveliness", process, log)
        yield f"http://127.0.0.1:{port}"


def ask(base_url: str, key: str, model: str, *, stream: bool = False, leave_after: int = 0) -> int:
    """Status of one request; reads a stream to its end, or leaves after so many lines."""
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "say words"}], "stream": stream}
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.stream("POST", f"{base_url}/v1/chat/completions", json=body, headers=headers, timeout=60) as answer:
        for number, _ in enumerate(answer.iter_lines(), start=1):
            if number == leave_after:
                break
        return answer.status_code


def twelve_requests(base_url: str) -> list[int]:
    return [
        ask(base_url, "red-key", "stub-plain"),
        ask(base_url, "red-key", "stub-plain", stream=True),
        ask(base_url, "blue-key", "stub-cached"),
        ask(base_url, "blue-batch", "stub-cached", stream=True),
        ask(base_url, "blue-key", "stub-reason", stream=True),
        ask(base_url, "red-key", "stub-reason"),
        ask(base_url, "red-key", "stub-flaky"),  # 503, then 200 by LiteLLM's retry
        ask(base_url, "blue-key", "stub-dead"),  # 503 twice, then the fallback answers
        ask(base_url, "red-key", "nothing-of-that-name"),
        ask(base_url, "wrong-key", "stub-plain"),
        ask(base_url, "blue-key", "stub-slow", stream=True, leave_after=7),
        ask(base_url, "red-key", "stub-plain"),
    ]


Reading = tuple[Upstream, list[dict[str, Any]], list[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    """(upstream, requests, attempts, report) of the twelve requests under OpenTelemetry v2."""
    required_python("litellm")
    root, upstream = tmp_path_factory.mktemp("litellm"), Upstream()
    (root / "config").mkdir()
    with up(root / "data", "--config", str(root / "config")) as running, serving(upstream.app()) as port:
        variables = {"LITELLM_OTEL_V2": "true", "OTEL_EXPORTER": "otlp_http", "OTEL_ENDPOINT": f"http://{running.http}"}
        with proxy(root, port, **variables) as base_url:
            statuses = twelve_requests(base_url)
            assert [status // 100 for status in statuses] == [2] * 8 + [4, 4] + [2] * 2, statuses
            await_spans(running)
        requests, attempts = attributed(running)
        yield upstream, requests, attempts, running.command("report", *bounds())


def await_spans(running: Running) -> None:
    eventually(lambda: count(running, "name LIKE 'POST %' AND kind = 'server'") >= 12, "the twelve server spans")
    eventually(lambda: count(running, "name LIKE 'chat %' AND status_code != 'error'") >= 10, "ten good calls")


def test_every_request_is_read_once_with_its_tokens(reading: Reading) -> None:
    _, requests, _, _ = reading
    columns = ("tenant", "model", "input_tokens", "input_cache_read_tokens", "output_tokens", "attempts", "failed_attempts", "outcome")
    print(*(tuple(row[c] for c in (*columns, "streamed", "delivery")) for row in requests), sep="\n")
    assert len(requests) == 12
    found = [tuple(row[column] for column in columns) for row in requests]
    expected = [
        ("team-red", "stub-plain", 120, 0, 40, 1, 0, "useful"),
        ("team-red", "stub-plain", 120, 0, 40, 1, 0, "useful"),
        ("team-blue", "stub-cached", 2048, 1536, 64, 1, 0, "useful"),
        ("team-blue", "stub-cached", 2048, 1536, 64, 1, 0, "useful"),
        ("team-blue", "stub-reason", 512, 256, 300, 1, 0, "useful"),
        ("team-red", "stub-reason", 512, 256, 300, 1, 0, "useful"),
        ("team-red", "stub-flaky", 120, 0, 40, 2, 1, "useful"),
        ("team-blue", "stub-plain", 120, 0, 40, 3, 2, "useful"),  # asked for stub-dead, answered by the fallback
        ("team-red", "nothing-of-that-name", None, None, None, 0, 0, "rejected"),
        ("unknown", "stub-plain", None, None, None, 0, 0, "rejected"),
    ]
    assert found[:10] == expected
    assert found[11] == expected[0]


def test_an_aborted_stream_is_never_read_as_confirmed(reading: Reading) -> None:
    _, requests, _, _ = reading
    aborted = requests[10]
    assert (aborted["tenant"], aborted["model"], aborted["streamed"]) == ("team-blue", "stub-slow", 1)
    assert aborted["delivery"] != "confirmed"
    assert (aborted["output_tokens"] or 0) < 40  # the upstream's whole answer


def test_attempts_are_what_the_upstream_was_asked(reading: Reading) -> None:
    upstream, _, attempts, _ = reading
    print(*((row["model"], row["outcome"], row["usage_state"], row["http_status"]) for row in attempts), sep="\n")
    asked = Counter(attempt.model for attempt in upstream.attempts)
    refused = sum(attempt.status == 503 for attempt in upstream.attempts)
    assert Counter(row["model"] for row in attempts) == asked
    assert sum(row["outcome"] == "failed" for row in attempts) == refused == 3


def test_what_litellm_does_not_tell_is_unknown(reading: Reading) -> None:
    _, requests, attempts, _ = reading
    assert {row["output_reasoning_tokens"] for row in (*requests, *attempts)} == {None}
    assert {row["replica"] for row in attempts} == {""}


def test_the_report_adds_up_to_what_each_team_was_answered(reading: Reading) -> None:
    _, requests, _, report = reading
    tenants = {row["tenant"]: row for row in report["tenants"]}
    left = requests[10]["input_tokens"] or 0, requests[10]["output_tokens"] or 0
    assert (tenants["team-red"]["tokens"]["input"], tenants["team-red"]["tokens"]["output"]) == (3 * 120 + 512 + 120, 3 * 40 + 300 + 40)
    assert (tenants["team-blue"]["tokens"]["input"], tenants["team-blue"]["tokens"]["output"]) == (
        2 * 2048 + 512 + 120 + left[0],
        2 * 64 + 300 + 40 + left[1],
    )
    assert {name: tenants[name]["requests"]["total"] for name in tenants} == {"team-red": 6, "team-blue": 5, "unknown": 1}
    assert report["conservation"]["difference_atoms"] == "0"
