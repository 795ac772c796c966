"""Clients that left: attempts that no engine shows, and what can be said of their tokens."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.store.client import Store
from tests.sql.scenarios import World, assembled_world
from tests.sql.spans import Row, chat, gateway, litellm_chat, litellm_server, span, stage, vllm_request

# One token takes the weights once: 8e9 parameters in bf16 over 2 x 3.35e12 bytes/s, half of it reached, are 4.8 ms.
INVENTORY = """
[[replica]]
id = "small"
match = { "service.name" = "engine-a" }
model = "llama-3.1-8b"
gpu = "h100-sxm"
gpus = 2
precision = "bf16"
efficiency = { compute = "0.5", memory = "0.5" }
from = 2026-11-01T00:00:00Z
"""
PROFILE = """
profile = "front"
version = 1
delivery_proof = true

[match]
scope_name = ["front"]

[[span]]
name = "ask"
role = "request"
layer = "gateway"
stage = "gateway"
model = { from = ["model"] }
http_status = { from = ["status"] }
disconnected = { from = ["gone"] }
delivered_tokens = { from = ["delivered"] }
token_limit = { from = ["max_tokens"] }

[[span]]
name = "call"
role = "inference"
layer = "gateway"
model = { from = ["model"] }
token_limit = { from = ["max_tokens"] }
input_tokens = { from = ["in"], includes_cache = true }
output_tokens = { from = ["out"] }
"""


def ask(trace: str, end: float | None = 100, **more: Any) -> Row:
    return span(trace, "gw", "ask", 0, end, scope="front", **{"model": "llama-3.1-8b", "gone": True, **more})


def call(trace: str, start: float, end: float, **more: Any) -> Row:
    return span(trace, f"c{start}", "call", start, end, "gw", scope="front", **{"model": "llama-3.1-8b", **more})


ROWS: list[Row] = [
    ask("left"),
    ask("limited", max_tokens=7),
    ask("roomy", max_tokens=7000),
    ask("some", delivered=5, max_tokens=3),
    ask("nomodel", model="m"),
    ask("nomodel2", model="m", max_tokens=64),
    ask("open", end=None),
    ask("closed", gone="", status=499),
    ask("fault", failed=True),
    ask("rejected", status=429),
    ask("down", status=503),
    gateway("blocked", 0, 100, tokenpath__blocked=True, tokenpath__client__disconnected=True),
    gateway("stream", 0, 100),
    stage("stream", "st", "stream", 20, 100, "gw", tokenpath__client__disconnected=True, tokenpath__delivered_tokens=4),
    ask("called"),
    call("called", 10, 90, max_tokens=12),
    ask("input"),
    call("input", 10, 90, **{"in": 50}),
    ask("counted"),
    call("counted", 10, 90, out=9),
    ask("engine", model="m"),
    vllm_request("engine", "v1", 10, 90, "gw", input="", output=""),
    ask("retried"),
    call("retried", 10, 30, failed=True),
    call("retried", 40, 90),
    gateway("cachehit", 0, 5),
    gateway("well", 0, 100),
    chat("well", "c1", 10, 90, output=None, input=None, gen_ai__request__model="llama-3.1-8b"),
    litellm_server("hidden", 0, 100),
    litellm_chat("hidden", "c1", 10, 90),
]
STEP = 4_788_059  # ns; the test of the catalogue's figures is elsewhere


@pytest.fixture(scope="module")
def world(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> World:
    directory: Path = tmp_path_factory.mktemp("config")
    (directory / "profiles").mkdir()
    (directory / "profiles" / "front.toml").write_text(PROFILE)
    return assembled_world(engine, ROWS, directory, {"inventory.toml": INVENTORY})


def bounds(world: World, trace: str) -> Any:
    return world[trace].of_attempts("outcome", "output_tokens", "output_tokens_min", "output_tokens_max", "usage_state")


def test_a_request_that_its_client_left_has_an_attempt_although_no_engine_shows_it(world: World) -> None:
    """vLLM writes no span for what it aborts. The request ran 100 ms; a token takes 4.8 ms at best."""
    assert bounds(world, "left") == [("aborted", None, 0, 100_000_000 // STEP + 1, "estimated")]
    attempt = world["left"].attempt
    assert (attempt["usage_source"], attempt["replica"], attempt["legs"], attempt["model"]) == ("none", "", [], "llama-3.1-8b")
    assert attempt["attempt_id"] == world["left"].request["request_id"] and "no_engine_span" in attempt["flags"]
    columns = ("outcome", "attempts", "failed_attempts", "output_tokens", "usage_state")
    assert world["left"].of_requests(*columns) == [("aborted", 1, 0, None, "estimated")]
    assert "no_engine_span" in world["left"].request["flags"]


@pytest.mark.parametrize(
    ("trace", "least", "most", "state"),
    [
        ("limited", 0, 7, "estimated"),
        ("roomy", 0, 100_000_000 // STEP + 1, "estimated"),
        ("some", 5, 5, "estimated"),  # what was delivered was made, whatever the limit
        ("nomodel", 0, None, "unknown"),
        ("nomodel2", 0, 64, "estimated"),
        ("open", 0, None, "unknown"),
        ("closed", 0, 100_000_000 // STEP + 1, "estimated"),  # 499: the client closed the connection
        ("fault", 0, 100_000_000 // STEP + 1, "estimated"),
        ("stream", 4, None, "unknown"),
        ("called", 0, 12, "estimated"),
        ("input", 0, 80_000_000 // STEP + 1, "reported"),
        ("engine", 0, 80_000_000 // STEP + 1, "estimated"),  # its replica's model
    ],
)
def test_at_least_what_was_delivered_and_at_most_what_limit_and_time_allow(
    world: World, trace: str, least: int, most: int | None, state: str
) -> None:
    assert bounds(world, trace) == [("aborted", None, least, most, state)]


def test_a_gateway_that_refused_or_failed_made_no_attempt(world: World) -> None:
    assert [world[trace].of_requests("outcome", "attempts") for trace in ("rejected", "down", "blocked")] == [
        [("rejected", 0)], [("failed", 0)], [("blocked", 0)]
    ]  # fmt: skip


def test_what_is_told_needs_no_bounds(world: World) -> None:
    assert bounds(world, "counted") == [("aborted", 9, None, None, "reported")]
    assert bounds(world, "hidden") == [("useful", 20, None, None, "reported")]


def test_only_the_attempt_that_the_client_left_is_bounded(world: World) -> None:
    assert [row[0] for row in bounds(world, "retried")] == ["failed", "aborted"]
    assert bounds(world, "retried")[0][2:] == (None, None, "unknown")
    assert bounds(world, "well") == [("unmetered", None, None, None, "unknown")]
    assert world["cachehit"].attempts == []


def test_an_engine_that_told_nothing_is_still_an_engine(world: World) -> None:
    assert "no_engine_span" not in world["engine"].request["flags"]
    assert "no_engine_span" in world["called"].attempt["flags"]
