"""Request traces are read wholly or refused at the line that is wrong."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collectors.workload.errors import TraceInvalid
from collectors.workload.example import synthesize, write_mooncake
from collectors.workload.trace import BLOCK_TOKENS, TraceFormat, count_requests, read_trace

GOOD: dict[str, Any] = {"timestamp": 27, "input_length": 1025, "output_length": 9, "hash_ids": [0, 4, 5]}


def mooncake(folder: Path, *lines: Mapping[str, Any] | str) -> Path:
    file = folder / "trace.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), encoding="utf-8")
    return file


def test_the_public_mooncake_trace_is_read_wholly(shared_data: Path) -> None:
    file = shared_data / "mooncake_conversation.jsonl.gz"
    requests = list(read_trace(file, "mooncake"))
    assert len(requests) == count_requests(file, "mooncake") == 12_031
    assert sum(request.input_tokens for request in requests) == 144_793_823
    assert sum(request.output_tokens for request in requests) == 4_122_048
    assert requests[-1].arrival_ns == 3_536_999_000_000
    assert all(len(request.blocks) == -(-request.input_tokens // BLOCK_TOKENS) for request in requests)


def test_the_public_azure_trace_is_read_wholly(shared_data: Path) -> None:
    file = shared_data / "azure_llm_2023_code.csv"
    requests = list(read_trace(file, "azure"))
    assert len(requests) == count_requests(file, "azure") == 8_819
    assert (requests[0].arrival_ns, requests[0].input_tokens, requests[0].output_tokens) == (0, 4808, 10)
    assert requests[1].arrival_ns == 52_000_000
    assert (requests[-1].line, requests[-1].input_tokens, requests[-1].output_tokens) == (8_820, 549, 173)


def test_extra_fields_blank_lines_and_compression_are_taken(tmp_path: Path) -> None:
    extras = {"tenant": "acme", "model": "m", "session_id": "s", "arrival_ns": 5, "turn": 2}
    plain = mooncake(tmp_path, GOOD | {"timestamp": 1.5}, "  ", {**GOOD, "arrival_ns": 2_000_000} | {"tenant": "acme"})
    packed = tmp_path / "trace.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = read_trace(packed, "mooncake")
    assert (first.arrival_ns, first.tenant, first.blocks) == (1_500_000, None, (0, 4, 5))
    assert (second.line, second.arrival_ns, second.tenant) == (3, 2_000_000, "acme")
    (request,) = read_trace(mooncake(tmp_path, GOOD | extras), "mooncake")
    assert (request.arrival_ns, request.tenant, request.model, request.session_id) == (5, "acme", "m", "s")


def test_a_limit_stops_before_a_broken_line(tmp_path: Path) -> None:
    file = mooncake(tmp_path, GOOD, GOOD, "broken")
    assert len(list(read_trace(file, "mooncake", limit=2))) == 2
    with pytest.raises(TraceInvalid, match=":3: is not JSON"):
        list(read_trace(file, "mooncake"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[1]", "is not a JSON object"),
        ("{" * 100_000, "is not JSON|recursion"),
        ('"' + "x" * (1 << 20) + '"', "longer than"),
        (GOOD | {"timestamp": -1}, "timestamp is -1"),
        (GOOD | {"timestamp": True}, "timestamp is True"),
        (GOOD | {"timestamp": 1e30}, "timestamp is 1e"),
        (GOOD | {"arrival_ns": 1.5}, "arrival_ns is 1.5"),
        (GOOD | {"input_length": 0}, "input_length is 0"),
        (GOOD | {"output_length": "9"}, "output_length is '9'"),
        (GOOD | {"hash_ids": [1, "2"]}, "hash_ids is not"),
        (GOOD | {"hash_ids": [1, 2, 3, 4]}, "has 4 hash_ids"),
        (GOOD | {"tenant": ""}, "tenant is ''"),
        (GOOD | {"timestamp": 26}, "before the line above"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_with_its_number(tmp_path: Path, line: Mapping[str, Any] | str, why: str) -> None:
    with pytest.raises(TraceInvalid, match=why) as caught:
        list(read_trace(mooncake(tmp_path, GOOD, line), "mooncake"))
    assert caught.value.line == 2


HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("TIMESTAMP,ContextTokens\r\n", 1, "header lacks"),
        (HEADER + "2023-11-16 18:17:03.1,1,1\r\nyesterday,1,1\r\n", 3, "not a date and time"),
        (HEADER + "2023-11-16 18:17:03.1234567891,1,1\r\n", 2, "finer than"),
        (HEADER + "2023-11-16 18:17:03,x,1\r\n", 2, "ContextTokens is 'x'"),
        (HEADER + "2023-11-16 18:17:03,1\r\n", 2, "GeneratedTokens is None"),
        (HEADER + "2023-11-16 18:17:03,1,1\r\n2023-11-16 18:17:02,1,1\r\n", 3, "before the first row"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_its_number(tmp_path: Path, text: str, line: int, why: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(text.encode())
    with pytest.raises(TraceInvalid, match=why) as caught:
        list(read_trace(file, "azure"))
    assert caught.value.line == line


def test_times_with_an_offset_are_compared_in_utc(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(HEADER + "2024-05-10 00:00:00.009930+00:00,1,1\n2024-05-10 02:00:01.5+02:00,1,1\n")
    assert [request.arrival_ns for request in read_trace(file, "azure")] == [0, 1_490_070_000]


@pytest.mark.parametrize(("name", "content"), [("absent.jsonl", None), ("trace.jsonl.gz", b"not gzip"), ("trace.jsonl", b"\xff\xfe\x00")])
def test_a_file_that_cannot_be_read_is_an_error_of_the_trace(tmp_path: Path, name: str, content: bytes | None) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(TraceInvalid, match="cannot be read"):
        list(read_trace(file, "mooncake"))


def test_the_example_is_a_mooncake_trace_and_follows_from_its_seed(tmp_path: Path) -> None:
    file = tmp_path / "example.jsonl"
    requests = list(synthesize(300, seed=5))
    assert write_mooncake(file, requests) == 300
    format: TraceFormat = "mooncake"
    assert list(read_trace(file, format)) == requests == list(synthesize(300, seed=5))
    assert requests != list(synthesize(300, seed=6))
