"""Spans of a real SGLang 0.5.23 (tests/data/otlp/sglang/README.md), read by the packaged profile. Reasoning beside each figure."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.store.client import Store
from tests.conftest import empty
from tests.ingest import ingest
from tests.sql.captures import assembled, bodies, configure, only

Reading = tuple[list[dict[str, Any]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def reading(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> Reading:
    """(requests, attempts) of the capture, assembled once."""
    empty(engine)
    ingest(engine, bodies("sglang"))
    return assembled(engine, configure(engine, tmp_path_factory.mktemp("config")))


def test_six_requests_of_seven_roots(reading: Reading) -> None:
    requests, attempts = reading
    assert only(requests, "response_id", "input_tokens", "input_cache_read_tokens", "output_tokens", "finish_reason") == [
        ("a1" * 16, 2048, 1024, 24, "stop"),
        ("b2" * 16, 900, 0, 6, "length"),
        ("c3" * 16, 500, 500, 8, "stop"),
        ("d4" * 16, 300, 0, 5, "abort"),
        ("e5" * 16, 700, 128, 10, "stop"),  # prompt and cached of the prefill worker, answer of the decode worker
        ("f6" * 16, 256, 64, 5, "stop"),
    ]
    assert [sum(row[column] for row in attempts) for column in ("input_tokens", "input_cache_read_tokens", "output_tokens")] == [
        4704,
        1716,
        58,
    ]
    assert {row["response_model"] for row in requests} == {"qwen-x"} and {row["tenant"] for row in requests} == {"unknown"}


def test_an_engine_that_says_abort_made_nothing_useful(reading: Reading) -> None:
    """d4: its client left after 5 tokens; only the finish reason and the status of a thread's span say so."""
    told = [(row["outcome"], row["delivery"], row["useful_tokens"]) for row in reading[0]]
    assert told[3] == ("aborted", "partial", 0)
    assert [outcome for outcome, _, _ in told].count("useful") == 5
    assert [row["outcome"] for row in reading[1]].count("aborted") == 1


def test_more_cached_than_prompt_is_clamped_flagged_and_kept_trap_3(reading: Reading) -> None:
    _, attempts = reading
    retracted = next(row for row in attempts if row["response_id"] == "c3" * 16)
    assert (retracted["input_uncached_tokens"], retracted["input_cache_read_tokens"]) == (0, 500)
    assert "cached_over_input" in retracted["flags"]
    assert retracted["raw_usage"]["engine/gen_ai.usage.cached_tokens"] == 1200


def test_finish_reasons_are_a_json_string_trap_4(reading: Reading) -> None:
    assert "[" not in "".join(row["finish_reason"] for row in reading[0])  # it is '["stop"]' on the span


def test_trace_ids_of_64_bits_and_names_with_ids_are_read_trap_10(reading: Reading) -> None:
    requests, _ = reading
    assert [row["request_id"].startswith("0" * 16) for row in requests] == [False, True, True, True, False, True]


def test_the_queue_is_not_part_of_prefill(reading: Reading) -> None:
    """a1: prefill_forward lasts 15,645,952 ns; gen_ai.latency.time_in_model_prefill, 26,070,072 ns, holds the queue too."""
    first = reading[0][0]
    assert first["stage_ns"] == {
        "tokenize": 2_539_008,
        "route": 260_608,
        "schedule": 6_343_168,  # request_process, prefill_waiting, decode_waiting
        "prefill": 15_645_952,
        "decode": 51_616_768,  # decode_forward, with its 23 decode_loops inside
        "other": 933_632,
    }
    assert first["e2e_ns"] == sum(first["stage_ns"].values()) == 77_339_136
    assert {quality for stage, quality in first["stage_quality"].items() if stage != "ttft"} == {"span"}


def test_two_ranks_count_once_trap_13(reading: Reading) -> None:
    """f6 ran on two ranks, which this driver ran one after the other; each reports a prefill of 15.3 and 15.4 ms. Right: the first's."""
    last = reading[0][-1]
    assert last["response_id"] == "f6" * 16
    assert 15_000_000 < last["stage_ns"]["prefill"] < 15_400_000
    assert last["stage_ns"]["prefill"] + last["stage_ns"]["schedule"] + last["stage_ns"]["decode"] < 31_500_000


def test_what_moves_from_prefill_to_decode_worker_is_network(reading: Reading) -> None:
    """e5: prefill_transfer_kv_cache 18,150 us on the one side, then decode_transferred 20,275 us on the other."""
    split = reading[0][4]
    assert split["stage_ns"]["nic"] // 1000 == 18_150 + 20_275
    assert split["attempts"] == 1


def test_a_second_delivery_changes_nothing(store: Store, tmp_path: Path, reading: Reading) -> None:
    ingest(store, bodies("sglang") * 2)
    assert assembled(store, configure(store, tmp_path)) == reading
