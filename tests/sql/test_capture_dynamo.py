"""Four requests through NVIDIA Dynamo's frontend (tests/data/otlp/dynamo/README.md): its spans and its request trace are one reading."""

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.content import ContentFilter, content_keys
from collectors.records import call_of
from collectors.records.spans import trace_request
from pipeline.store.client import Store
from tests.conftest import empty
from tests.ingest import ingest
from tests.sql.captures import CAPTURES, assembled, bodies, configure, only

CAPTURE = "dynamo"
RECEIVED_NS = 1_796_101_660_000_000_000  # some seconds after the requests
COLUMNS = ("client_request_id", "model", "input_tokens", "input_cache_read_tokens", "output_tokens", "attempts")
Rows = list[dict[str, Any]]


def records() -> bytes:
    """The rows of the request trace, as the receiver makes spans of them."""
    rows = [json.loads(line) for line in (CAPTURES / CAPTURE / "request-trace.jsonl").read_text().splitlines()]
    content = ContentFilter(content_keys())
    return bytes(trace_request([call_of(row, content.is_content) for row in rows], {"service.name": "dynamo-frontend"}).SerializeToString())


@pytest.fixture(scope="module")
def reading(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, Rows]:
    empty(engine)
    ingest(engine, [*bodies(CAPTURE), records()], received_ns=RECEIVED_NS)
    return assembled(engine, configure(engine, tmp_path_factory.mktemp("config")))


def test_span_and_record_of_a_request_are_one_reading(reading: tuple[Rows, Rows]) -> None:
    requests, _ = reading
    assert only(requests, *COLUMNS) == [
        ("gw-1", "mock-model", 880, 0, 16, 1),
        ("gw-2", "mock-model", 880, 832, 24, 1),
        ("gw-3", "mock-model", 889, 832, 8, 1),
        ("gw-4", "unknown_model", None, None, None, 0),  # Dynamo's own word for a model that is not there
    ]


def test_attempts_ran_on_the_worker_that_the_record_names(reading: tuple[Rows, Rows]) -> None:
    _, attempts = reading
    assert only(attempts, "replica") == [("12203798919597910673",)] * 3


def test_times_are_the_records_and_add_up_to_the_frontends(reading: tuple[Rows, Rows]) -> None:
    requests, _ = reading
    first = requests[0]["stage_ns"]
    assert (first["schedule"], first["prefill"]) == (12_895_707, 88_509_896)  # prefill_wait_time_ms and prefill_time_ms of gw-1
    assert [sum(row["stage_ns"].values()) - row["e2e_ns"] for row in requests] == [0, 0, 0, 0]


def test_without_the_request_trace_the_frontends_requests_have_unknown_tokens(
    store: Store, tmp_path: Path, reading: tuple[Rows, Rows]
) -> None:
    ingest(store, bodies(CAPTURE), received_ns=RECEIVED_NS)
    requests, _ = assembled(store, configure(store, tmp_path))
    assert [row[:2] for row in only(requests, *COLUMNS)] == [row[:2] for row in only(reading[0], *COLUMNS)]
    assert {(row["input_tokens"], row["output_tokens"], row["usage_state"]) for row in requests} == {(None, None, "unknown")}


def test_without_the_spans_the_records_have_the_tokens_and_no_model(store: Store, tmp_path: Path) -> None:
    ingest(store, [records()], received_ns=RECEIVED_NS)
    requests, _ = assembled(store, configure(store, tmp_path))
    assert only(requests, "model", "input_tokens", "input_cache_read_tokens", "output_tokens") == [
        ("unknown", 880, 0, 16),
        ("unknown", 880, 832, 24),
        ("unknown", 889, 832, 8),
    ]
