"""Request traces: who asks for how many tokens, and when.

Mooncake JSONL (also `.gz`), one object a line: `timestamp` (ms since the start), `input_length`, `output_length` (tokens),
`hash_ids` (ids of the prompt's blocks of 512 tokens, in order; equal ids are equal prefixes). Optional and ours: `tenant`, `model`,
`session_id`, `arrival_ns` (replaces `timestamp`). Other keys are ignored.
Azure CSV: `TIMESTAMP` (date and time), `ContextTokens`, `GeneratedTokens`; the first row is time 0.
Arrivals never go back. Files are read line by line; the first line that breaks a rule raises TraceInvalid with its number.
"""

import csv
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

from collectors.workload.errors import TraceInvalid

TraceFormat = Literal["mooncake", "azure"]
BLOCK_TOKENS = 512
LINE_BYTES_MAX = 1 << 20
TOKENS_MAX = 10_000_000
NS_MAX = 366 * 86_400 * 10**9


class TraceRequest(NamedTuple):
    """One request of the trace. `arrival_ns` counts from the trace's start; `blocks` are the prefix ids of its prompt."""

    line: int
    arrival_ns: int
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    tenant: str | None = None
    model: str | None = None
    session_id: str | None = None


class _Refused(ValueError):
    pass


def read_trace(file: Path, format: TraceFormat, limit: int | None = None) -> Iterator[TraceRequest]:
    """The first `limit` requests of a file, in its order. Raises TraceInvalid."""
    parse = _mooncake if format == "mooncake" else _azure
    with _opened(file) as lines:
        yield from islice(_in_order(file, parse(file, lines)), limit)


def count_requests(file: Path, format: TraceFormat) -> int:
    """How many requests the file holds, by its lines (blank ones left out); nothing is parsed."""
    with _opened(file) as lines:
        return sum(1 for line in lines if not line.isspace()) - (format == "azure")


@contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    try:
        with gzip.open(file, "rt", encoding="utf-8-sig") if file.suffix == ".gz" else file.open(encoding="utf-8-sig", newline="") as lines:
            yield lines
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise TraceInvalid(file, 0, f"cannot be read: {error}") from error


def _in_order(file: Path, requests: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
    previous = 0
    for request in requests:
        if request.arrival_ns < previous:
            raise TraceInvalid(file, request.line, "arrives before the line above it; sort the file by time")
        previous = request.arrival_ns
        yield request


def _mooncake(file: Path, lines: TextIO) -> Iterator[TraceRequest]:
    for number, line in enumerate(lines, start=1):
        if line.isspace():
            continue
        try:
            if len(line) > LINE_BYTES_MAX:
                raise _Refused(f"is longer than {LINE_BYTES_MAX} characters")
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise _Refused("is not a JSON object")
            yield _mooncake_request(number, fields)
        except json.JSONDecodeError as error:
            raise TraceInvalid(file, number, f"is not JSON: {error.msg} (column {error.colno})") from None
        except (_Refused, RecursionError) as error:
            raise TraceInvalid(file, number, str(error)) from None


def _mooncake_request(number: int, fields: Mapping[str, Any]) -> TraceRequest:
    input_tokens = _tokens(fields, "input_length")
    blocks = fields.get("hash_ids", [])
    if not isinstance(blocks, list) or not all(type(block) is int for block in blocks):
        raise _Refused("hash_ids is not a list of whole numbers")
    if len(blocks) > -(-input_tokens // BLOCK_TOKENS):
        raise _Refused(f"has {len(blocks)} hash_ids, more than {input_tokens} tokens fill in blocks of {BLOCK_TOKENS}")
    return TraceRequest(
        number,
        _arrival_ns(fields),
        input_tokens,
        _tokens(fields, "output_length"),
        tuple(blocks),
        _text(fields, "tenant"),
        _text(fields, "model"),
        _text(fields, "session_id"),
    )


def _arrival_ns(fields: Mapping[str, Any]) -> int:
    key, ns_per_unit = ("arrival_ns", 1) if "arrival_ns" in fields else ("timestamp", 1_000_000)
    value = fields.get(key)
    if type(value) is float and key == "timestamp" and 0 <= value <= NS_MAX / ns_per_unit:
        return round(value * ns_per_unit)
    if type(value) is not int or not 0 <= value * ns_per_unit <= NS_MAX:
        raise _Refused(f"{key} is {value!r}, not a time from 0 to 366 days")
    return value * ns_per_unit


def _tokens(fields: Mapping[str, Any], key: str) -> int:
    value = fields.get(key)
    if type(value) is not int or not 1 <= value <= TOKENS_MAX:
        raise _Refused(f"{key} is {value!r}, not a whole number from 1 to {TOKENS_MAX}")
    return value


def _text(fields: Mapping[str, Any], key: str) -> str | None:
    value = fields.get(key)
    if value is not None and (not isinstance(value, str) or not 0 < len(value) <= 256):
        raise _Refused(f"{key} is {value!r}, not a text of 1 to 256 characters")
    return value


AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def _azure(file: Path, lines: TextIO) -> Iterator[TraceRequest]:
    rows = csv.DictReader(lines)
    try:
        if not set(AZURE_COLUMNS) <= set(rows.fieldnames or ()):
            raise TraceInvalid(file, 1, f"the header lacks one of {', '.join(AZURE_COLUMNS)}")
        first_ns: int | None = None
        for row in rows:
            try:
                at_ns = _azure_time_ns(row["TIMESTAMP"] or "")
                first_ns = at_ns if first_ns is None else first_ns
                counts = {key: _decimal(row[key]) for key in AZURE_COLUMNS[1:]}
                if not 0 <= at_ns - first_ns <= NS_MAX:
                    raise _Refused("lies before the first row or more than 366 days after it")
                yield TraceRequest(
                    rows.line_num, at_ns - first_ns, _tokens(counts, "ContextTokens"), _tokens(counts, "GeneratedTokens")
                )  # fmt: skip
            except _Refused as error:
                raise TraceInvalid(file, rows.line_num, str(error)) from None
    except csv.Error as error:
        raise TraceInvalid(file, rows.line_num, f"is not CSV: {error}") from None


def _decimal(text: str | None) -> int | str | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 12 else text


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _azure_time_ns(text: str) -> int:
    """`2023-11-16 18:17:03.9799600`, with or without an offset such as `+00:00`; without one it is UTC."""
    seconds, dot, rest = text.strip().partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))] if dot else ""
    try:
        moment = datetime.fromisoformat(seconds + rest[len(digits) :])
    except ValueError:
        raise _Refused(f"TIMESTAMP is {text!r}, not a date and time") from None
    if len(digits) > 9:
        raise _Refused(f"TIMESTAMP {text!r} is finer than a nanosecond")
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(seconds=1) * 10**9 + int(digits.ljust(9, "0"))
