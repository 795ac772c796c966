"""One INSERT per batch and signal: each OTLP body inside a small protobuf envelope, decoded by the engine.

Python writes varints and length prefixes and never looks at a span. The engine decodes by `schemas/otlp/<signal>.proto`
into a Null table, whose views fill the tables.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import BadData, StoreDown
from pipeline.store.client import Store
from pipeline.store.errors import error_code, first_line, is_query_memory
from schemas.log import Record

Signal = Literal["traces", "metrics"]

TABLES: Mapping[Signal, str] = {"traces": "otlp_traces", "metrics": "otlp_metrics"}
DAY_NS = 86_400_000_000_000
MAX_AGE_DAYS = 400

# A batch of 32 MB of ordinary spans takes under 0.4 GB; only bodies made of empty elements come near.
INSERT_MEMORY_BYTES = 1_500_000_000

# ClickHouse's numbers for bytes that are no message of the schema.
# 36 and 434 also say that its copy of the schema is broken: `decodes` tells the two apart.
DECODER_REFUSALS = frozenset({27, 32, 33, 36, 117, 128, 131, 434, 436, 444})


@dataclass(frozen=True, slots=True)
class Arrival:
    """One OTLP body as the log holds it, with its sender. `received_ns` is the same at every redelivery."""

    record: Record
    received_ns: int
    principal: str
    ingest_key: str


def wrap(arrivals: Iterable[Arrival], max_age_days: int = MAX_AGE_DAYS) -> bytes:
    """Length-delimited envelopes (message `Envelope` of the .proto) of these bodies, untouched."""
    return b"".join(wrapped_pieces(arrivals, max_age_days))


def wrapped_pieces(arrivals: Iterable[Arrival], max_age_days: int = MAX_AGE_DAYS) -> Sequence[bytes]:
    """The same in pieces, among them the bodies themselves, so that a large batch need not be copied."""
    pieces: list[bytes] = []
    max_age = b"\x28" + varint(max_age_days * DAY_NS)
    for arrival in arrivals:
        record = arrival.record
        head = b"".join(
            (
                _text(b"\x0a", record.topic),
                b"\x10",
                varint(record.partition),
                b"\x18",
                varint(record.offset),
                b"\x20",
                varint(arrival.received_ns),
                max_age,
                _text(b"\x32", arrival.principal),
                _text(b"\x3a", arrival.ingest_key),
                b"\x42",
                varint(len(record.value)),
            )
        )
        pieces += (varint(len(head) + len(record.value)), head, record.value)
    return pieces


def insert(store: Store, signal: Signal, wrapped: bytes | Sequence[bytes], edition: int = 0) -> None:
    """Decodes and stores a batch. Idempotent: row identity is (topic, partition, offset, item) or the span's own.

    Raises StoreDown, or BadData (`undecodable`, `too_large`) when the engine refuses the bytes: then a part of the batch,
    at most, is stored, and storing the rest again makes it whole.
    """
    try:
        store.insert(TABLES[signal], wrapped, "Protobuf", decoder_settings(signal, edition))
    except ClickHouseError as error:
        if error_code(error) in DECODER_REFUSALS:
            raise BadData("undecodable", first_line(error)) from error
        raise
    except StoreDown as error:
        if error.__cause__ is not None and is_query_memory(error.__cause__):
            raise BadData("too_large", f"decoding takes more than {INSERT_MEMORY_BYTES} bytes of memory") from error
        raise


def decodes(store: Store, signal: Signal, edition: int) -> bool:
    """Whether the engine can read a request with nothing in it. If not, no message is to blame. Raises StoreDown."""
    empty = Arrival(Record("", 0, 0, {}, b""), 0, "platform", "")
    try:
        insert(store, signal, wrap([empty]), edition)
    except BadData:
        return False
    return True


@cache
def decoder_settings(signal: Signal, edition: int = 0) -> Mapping[str, int | str]:
    """Settings of an insert. The engine keeps a copy of the schema in a file named by its text, and what it read from that
    file as long as it runs: another edition is the same schema under another name."""
    schema = (files("schemas") / "otlp" / f"{signal}.proto").read_text(encoding="utf-8")
    return {
        "format_schema_source": "string",
        "format_schema": f"{schema}// edition {edition}\n" if edition else schema,
        "format_schema_message_name": "Envelope",
        "input_format_protobuf_oneof_presence": 1,
        "output_format_json_escape_forward_slashes": 0,
        # Row identity makes a redelivery harmless; hashing every block to find it sooner costs a sixth of the insert.
        "insert_deduplicate": 0,
        "deduplicate_blocks_in_dependent_materialized_views": 0,
        "max_memory_usage": INSERT_MEMORY_BYTES,
        "short_circuit_function_evaluation": "disable",  # twice as fast; the views are safe on every row
    }


def varint(number: int) -> bytes:
    """Protobuf's base-128 form of a number from 0 to 2^64 - 1."""
    if number < 0 or number >> 64:
        raise ValueError(f"{number} is not an unsigned 64-bit number")
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _text(tag: bytes, text: str) -> bytes:
    value = text.encode()
    return tag + varint(len(value)) + value
