"""The log between the collectors and the loader: Kafka's words, as Protocols.

A topic has partitions; a partition is an append-only sequence of records with offsets from 0. What a consumer
group commits is the *next* offset to read. Both implementations are in `pipeline/log/` and pass one conformance suite.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

TRACES_TOPIC = "otlp_spans"
METRICS_TOPIC = "otlp_metrics"
DEAD_LETTERS_TOPIC = "otlp_dead_letters"
OWN_TOPICS = frozenset({TRACES_TOPIC, METRICS_TOPIC, DEAD_LETTERS_TOPIC})
LOADER_GROUP = "tokenpath-loader"

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicPartition:
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Record:
    """One message as read: `value` is the untouched OTLP protobuf body (CONTRACTS 3.8). `appended_ns` is when the log got
    it, as the log itself keeps it (Kafka's timestamp); 0 where it keeps none."""

    topic: str
    partition: int
    offset: int
    headers: Headers
    value: bytes
    appended_ns: int = field(default=0, compare=False)


class LogFull(Exception):
    """The log cannot take more now (disk full, quota, producer buffer full, time-out). Retry after a delay; nothing was appended."""


class LogUnavailable(Exception):
    """The log cannot be reached (broker away, file locked). Retry after a delay; nothing is known to have been appended."""


class RecordTooLarge(Exception):
    """The value or its headers exceed what the log was opened for. Retrying cannot help; nothing was appended."""


class AppendLog(Protocol):
    """What a receiver needs. Safe to call from several threads."""

    def append(self, topic: str, headers: Headers, value: bytes) -> None:
        """Returns once the record is durable (Kafka: acks=all; SQLite: committed). Raises LogFull or LogUnavailable, both
        within half a minute, or RecordTooLarge. `topic` is one of those named at opening."""

    def close(self) -> None:
        """What was acknowledged stays; a later append raises LogUnavailable. Idempotent."""


class ReadLog(Protocol):
    """What the loader needs: one consumer of one group. Used by one thread.

    A group that never committed begins with the oldest record. Opened with group None it is for looking only (dead
    letters, status): it reads from the oldest record, touches no group's offsets, and `commit` raises ValueError.
    """

    def poll(self, max_records: int, max_bytes: int, timeout_s: float) -> Sequence[Record]:
        """At most max_records; stops once max_bytes is reached (a single larger record is still returned).
        Returns as soon as there is something, or an empty sequence after timeout_s. Raises LogUnavailable."""

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Stores exactly these offsets for the group. Idempotent. Raises LogUnavailable; after a rebalance too, when the
        records belong to another consumer by now: `rewind` and poll again then."""

    def committed(self) -> Mapping[TopicPartition, int]:
        """Per known partition the committed next offset (0 where the group never committed)."""

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """Per known partition the offset that the next record will get."""

    def rewind(self) -> None:
        """Goes back to the committed offsets (after a failed batch). Raises LogUnavailable."""

    def close(self) -> None:
        """Leaves the group without committing. Idempotent."""
