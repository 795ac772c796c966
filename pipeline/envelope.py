"""One INSERT per batch and signal: each OTLP body inside a small protobuf envelope, decoded by the engine.

Python writes varints and length prefixes and never looks at a span. The engine decodes by `schemas/otlp/<signal>.proto`
into a Null table, whose views fill the tables.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from pipeline.store import Store

Signal = Literal["traces", "metrics"]

TABLES: Mapping[Signal, str] = {"traces": "otlp_traces", "metrics": "otlp_metrics"}
DAY_NS = 86_400_000_000_000
MAX_AGE_DAYS = 400


@dataclass(frozen=True, slots=True)
class Arrival:
    """One OTLP body with what the log knows of it. `received_ns` is the same at every redelivery."""

    topic: str
    partition: int
    offset: int
    received_ns: int
    principal: str
    ingest_key: str
    body: bytes


def wrap(arrivals: Iterable[Arrival], max_age_days: int = MAX_AGE_DAYS) -> bytes:
    """Length-delimited envelopes (message `Envelope` of the .proto) of these bodies, untouched."""
    pieces: list[bytes] = []
    max_age = b"\x28" + varint(max_age_days * DAY_NS)
    for arrival in arrivals:
        head = b"".join(
            (
                _text(b"\x0a", arrival.topic),
                b"\x10",
                varint(arrival.partition),
                b"\x18",
                varint(arrival.offset),
                b"\x20",
                varint(arrival.received_ns),
                max_age,
                _text(b"\x32", arrival.principal),
                _text(b"\x3a", arrival.ingest_key),
                b"\x42",
                varint(len(arrival.body)),
            )
        )
        pieces += (varint(len(head) + len(arrival.body)), head, arrival.body)
    return b"".join(pieces)


def insert(store: Store, signal: Signal, wrapped: bytes) -> None:
    """Decodes and stores a batch. Idempotent: row identity is (topic, partition, offset, item) or the span's own.

    Raises StoreDown, or UndecodableBatch when the engine refuses the bytes: then nothing of the batch is stored.
    """
    store.insert(TABLES[signal], wrapped, "Protobuf", decoder_settings(signal))


@cache
def decoder_settings(signal: Signal) -> Mapping[str, int | str]:
    return {
        "format_schema_source": "string",
        "format_schema": (files("schemas") / "otlp" / f"{signal}.proto").read_text(encoding="utf-8"),
        "format_schema_message_name": "Envelope",
        "input_format_protobuf_oneof_presence": 1,
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
