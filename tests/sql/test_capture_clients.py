"""Seven calls through the openai SDK under each of four client instrumentations (tests/data/otlp/client-*/README.md).

What was done is the same for all: 1 and 5 used 120/40 tokens, 2 used 2048 (1536 cached)/64, 3 used 512 (256 cached)/300 (220 reasoning);
4 did not ask for its usage, 6 was refused with 429, 7 was closed by the client. What an instrumentation leaves out is unknown, not 0.
"""

from pathlib import Path
from typing import Any

import pytest

from pipeline.store.client import Store
from tests.ingest import ingest
from tests.sql.captures import assembled, bodies, configure, only

USAGE = ("input_tokens", "output_tokens")
CALLS = [(120, 40), (2048, 64), (512, 300), (None, None), (120, 40), (None, None), (None, None)]


def read(store: Store, directory: Path, capture: str) -> list[dict[str, Any]]:
    ingest(store, bodies(capture))
    requests, attempts = assembled(store, configure(store, directory))
    assert len(requests) == len(attempts)
    return requests


def cached(requests: list[dict[str, Any]]) -> list[int | None]:
    return [row["input_cache_read_tokens"] for row in requests]


def test_openai_v2_tells_neither_cached_nor_reasoning_tokens(store: Store, tmp_path: Path) -> None:
    requests = read(store, tmp_path, "client-openai-v2")
    assert only(requests, *USAGE) == CALLS
    assert {row["provider"] for row in requests} == {"openai"}  # by its older name, gen_ai.system
    assert set(cached(requests)) == {None} and {row["output_reasoning_tokens"] for row in requests} == {None}


def test_openinference_tells_all_four(store: Store, tmp_path: Path) -> None:
    requests = read(store, tmp_path, "client-openinference")
    assert only(requests, *USAGE) == CALLS
    assert sum(value or 0 for value in cached(requests)) == 1792
    assert sum(row["output_reasoning_tokens"] or 0 for row in requests) == 220
    assert {row["task_id"] for row in requests} == {"sess-1"}


def test_traceloop_loses_the_reasoning_of_a_streamed_call(store: Store, tmp_path: Path) -> None:
    requests = read(store, tmp_path, "client-traceloop")
    assert only(requests, *USAGE) == CALLS  # total_tokens, 3244, is not added
    assert cached(requests)[:3] == [0, 1536, 256]
    assert requests[2]["output_reasoning_tokens"] is None and requests[0]["output_reasoning_tokens"] == 0


def test_openlit_estimates_what_it_was_not_told_and_leaves_out_an_abandoned_call(store: Store, tmp_path: Path) -> None:
    requests = read(store, tmp_path, "client-openlit")
    # The fourth call's 10/10 is counted from its text, and no attribute says so. HTTP spans below a call are no calls.
    assert only(requests, *USAGE) == [*CALLS[:3], (10, 10), *CALLS[4:6]]
    assert cached(requests)[:3] == [0, 1536, 256] and {row["output_reasoning_tokens"] for row in requests} == {None}


@pytest.mark.parametrize("capture", ["client-openai-v2", "client-openinference", "client-traceloop", "client-openlit"])
def test_a_refused_call_failed_and_used_nothing_known(store: Store, tmp_path: Path, capture: str) -> None:
    requests = read(store, tmp_path, capture)
    refused = requests[5]
    assert (refused["outcome"], refused["usage_state"], refused["input_tokens"]) == ("failed", "unknown", None)
