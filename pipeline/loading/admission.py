"""From log record to arrival: who sent it and when it was received, or why it cannot be taken. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.loading.envelope import Arrival, Signal
from schemas.log import METRICS_TOPIC, TRACES_TOPIC, Record
from schemas.settings import TopicSettings

CONTENT = "otlp_proto"
PRINCIPAL = re.compile(r"platform|tenant/[^\s/]\S{0,127}")
DECIMAL = re.compile(r"[0-9]{1,19}")
# From 2001 to 2100. Outside, the monthly partitions and the tables' times would not hold.
RECEIVED_NS_MIN, RECEIVED_NS_MAX = 1_000_000_000_000_000_000, 4_102_444_800_000_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """What a topic holds. `principal` is '' where every record names its own sender in its headers (our receivers')."""

    signal: Signal
    principal: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """`reason` is one low-cardinality word for the dead letter, `error` the rest."""

    record: Record
    reason: str
    error: str


def sources(topics: tuple[TopicSettings, ...]) -> Mapping[str, Source]:
    """Per topic its source: those that Collectors write, and our own two."""
    written_by_collectors = {topic.name: Source(topic.signal, topic.principal) for topic in topics}
    return {**written_by_collectors, TRACES_TOPIC: Source("traces", ""), METRICS_TOPIC: Source("metrics", "")}


def admit(record: Record, source: Source, now_ns: int) -> Arrival | Refusal:
    """Headers of a Collector's topic are not believed: its sender is a setting, and its receipt is the time that Kafka
    keeps with the record. Without one it is now, and the first of several readings wins in the store."""
    if source.principal:
        received_ns = record.appended_ns if RECEIVED_NS_MIN <= record.appended_ns <= RECEIVED_NS_MAX else now_ns
        return Arrival(record, received_ns, source.principal, "")
    headers = record.headers
    content = headers.get("content", "")
    if content != CONTENT:
        return Refusal(record, "content", f"header content = {content[:80]!r}, expected {CONTENT}")
    principal = headers.get("principal", "")
    if not PRINCIPAL.fullmatch(principal):
        return Refusal(record, "principal", f"header principal = {principal[:80]!r}, expected platform or tenant/<id>")
    received = headers.get("received_ns", "")
    if not DECIMAL.fullmatch(received) or not RECEIVED_NS_MIN <= int(received) <= RECEIVED_NS_MAX:
        return Refusal(record, "received_ns", f"header received_ns = {received[:80]!r}, expected unix nanoseconds from 2001 to 2100")
    return Arrival(record, int(received), principal, headers.get("ingest_key", "")[:128])
