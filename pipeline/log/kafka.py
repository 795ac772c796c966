"""The log in Kafka. Errors of the client become LogFull, LogUnavailable or ConfigurationError here."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any, TypeVar

import kafka
from kafka import errors
from kafka.protocol.consumer import OffsetSpec

from pipeline.errors import ConfigurationError
from pipeline.log import kafka_clients as clients
from pipeline.log.kafka_topics import ensure_topics, known_topics
from pipeline.log.limits import check_record, record_bytes_max
from schemas.log import Headers, LogFull, LogUnavailable, Record, RecordTooLarge, TopicPartition
from schemas.settings import LogSettings

BUFFER_BYTES = 67_108_864
BUFFER_WAIT_SECONDS = 5.0
CLOSE_SECONDS = 12.0
COMMIT_TIMEOUT_MS = 8_000
SIGN_OF_LIFE_SECONDS = 5.0
COORDINATOR_SECONDS, COORDINATOR_RETRY_SECONDS = 10.0, 0.2

REFUSALS = (
    errors.AuthorizationError,
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.KafkaConfigurationError,
)

T = TypeVar("T")

logger = logging.getLogger(__name__)


def opening(settings: LogSettings, call: Callable[[], T]) -> T:
    """`call` with the client's errors in our words: LogUnavailable, or ConfigurationError for what only a person can mend."""
    try:
        return asking(f"{settings.url}: opening", call)
    except LogUnavailable as error:
        if isinstance(error.__cause__, REFUSALS):
            raise ConfigurationError(f"{error}; check [log] and the access rights of its user") from error
        if settings.security_protocol != "PLAINTEXT":
            # The client goes on trying when it is turned away, and calls it a time-out in the end.
            raise LogUnavailable(f"{error}; a wrong password or an untrusted certificate looks the same: check [log]") from error
        raise


def asking(what: str, call: Callable[[], T]) -> T:
    """`call` with the client's errors in our words: LogUnavailable, LogFull or RecordTooLarge."""
    try:
        return call()
    except errors.KafkaError as error:
        raise as_log_error(what, error) from error
    except OSError as error:
        raise LogUnavailable(f"{what}: {error}") from error


def _with_coordinator(call: Callable[[], T]) -> T:
    """A new broker makes its offsets topic when a group is first asked for, and says for a moment that there is no coordinator."""
    until = monotonic() + COORDINATOR_SECONDS
    while True:
        try:
            return call()
        except (errors.CoordinatorNotAvailableError, errors.CoordinatorLoadInProgressError, errors.NotCoordinatorError):
            if monotonic() >= until:
                raise
            sleep(COORDINATOR_RETRY_SECONDS)


def closing(where: str, call: Callable[[], object]) -> None:
    """An orderly end where the broker is there. Where it is not, nothing that was acknowledged or committed is lost."""
    try:
        call()
    except (errors.KafkaError, OSError) as error:
        logger.warning("%s: closing: %s", where, error)


def as_log_error(what: str, error: Exception) -> Exception:
    said = f"{what}: {type(error).__name__}: {error}"
    if isinstance(error, errors.ThrottlingQuotaExceededError):
        return LogFull(said)
    if isinstance(error, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
        return RecordTooLarge(f"{said}; raise max.message.bytes of the topic")
    return LogUnavailable(said)


class Buffer:
    """Bytes that were handed to the producer and not yet answered: the client itself has no limit."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes, self._held_bytes, self._changed = capacity_bytes, 0, threading.Condition()

    def acquire(self, size_bytes: int, timeout_s: float) -> None:
        """Raises LogFull when there is no room within timeout_s. Alone, any size fits."""
        with self._changed:
            fits = self._changed.wait_for(
                lambda: not self._held_bytes or self._held_bytes + size_bytes <= self._capacity_bytes, timeout=timeout_s
            )
            if not fits:
                raise LogFull(f"{self._held_bytes} bytes wait for Kafka; it is slower than the senders")
            self._held_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        with self._changed:
            self._held_bytes -= size_bytes
            self._changed.notify_all()


class KafkaAppendLog:
    """AppendLog. Makes missing topics, with room for the largest body; refuses topics without it."""

    def __init__(self, settings: LogSettings, max_body_bytes: int, topics: Sequence[str], buffer_bytes: int = BUFFER_BYTES) -> None:
        self._where, self._topics, self._max_body_bytes = settings.url, frozenset(topics), max_body_bytes
        self._buffer, self._closed = Buffer(buffer_bytes), False
        opening(settings, lambda: ensure_topics(settings, record_bytes_max(max_body_bytes), topics))
        self._producer = opening(settings, lambda: clients.producer(settings, record_bytes_max(max_body_bytes)))

    def append(self, topic: str, headers: Headers, value: bytes) -> None:
        check_record(self._topics, self._max_body_bytes, topic, headers, value)
        if self._closed:
            raise LogUnavailable(f"{self._where}: the log is closed")
        self._buffer.acquire(len(value), BUFFER_WAIT_SECONDS)
        try:
            encoded = [(name, text.encode()) for name, text in headers.items()]
            future = asking(f"{self._where}: topic {topic}", lambda: self._producer.send(topic, value=value, headers=encoded))
        except BaseException:
            self._buffer.release(len(value))
            raise
        future.add_both(lambda _: self._buffer.release(len(value)))
        # The client itself gives up after the delivery time-out; the second more is for its thread to say so.
        asking(f"{self._where}: topic {topic}", lambda: future.get(timeout=clients.DELIVERY_TIMEOUT_MS / 1000 + 1))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            closing(self._where, lambda: self._producer.close(timeout=CLOSE_SECONDS))


class KafkaReadLog:
    """ReadLog. Joins its group with the first poll, so that looking at offsets disturbs nobody.

    Records that were fetched but not handed out wait in `_pending`. Partitions are only revoked inside the client's
    poll, which is only called when nothing is pending: so nothing of a partition that moved away is ever handed out
    after the move was noticed, and its position is the client's, dropped with the partition.
    """

    def __init__(self, settings: LogSettings, topics: Sequence[str], group: str | None) -> None:
        self._where, self._topics, self._group = settings.url, list(dict.fromkeys(topics)), group
        self._pending: deque[Record] = deque()
        self._closed, self._alive_at = False, monotonic()
        self._admin = opening(settings, lambda: clients.admin(settings))
        try:
            self._consumer = opening(settings, lambda: clients.consumer(settings, group))
            if group is None:
                self._assign_all()
            else:
                self._consumer.subscribe(self._topics)
        except BaseException:
            self._admin.close()
            raise

    def _assign_all(self) -> None:
        partitions = self._partitions()
        if partitions:
            self._consumer.assign(partitions)
            self._consumer.seek_to_beginning(*partitions)

    def poll(self, max_records: int, max_bytes: int, timeout_s: float) -> Sequence[Record]:
        self._check_open()
        if not self._pending:
            self._fetch(max_records, timeout_s)
        records: list[Record] = []
        while self._pending and len(records) < max_records:
            max_bytes -= len(self._pending[0].value)
            if max_bytes < 0 and records:
                break
            records.append(self._pending.popleft())
        return records

    def _fetch(self, max_records: int, timeout_s: float) -> None:
        found = asking(
            f"{self._where}: reading", lambda: self._consumer.poll(timeout_ms=max(0, int(timeout_s * 1000)), max_records=max_records)
        )
        self._pending.extend(_record(message) for messages in found.values() for message in messages)
        if self._pending:
            self._alive_at = monotonic()
        elif monotonic() - self._alive_at >= SIGN_OF_LIFE_SECONDS:
            self._ask_for_life()
            self._alive_at = monotonic()

    def _ask_for_life(self) -> None:
        """Raises LogUnavailable: the client keeps silent while no broker answers, but nothing to read and nobody there must
        not look the same."""
        assigned = list(self._consumer.assignment())
        if assigned:
            asking(f"{self._where}: reading", lambda: self._consumer.end_offsets(assigned, timeout_ms=clients.REQUEST_TIMEOUT_MS))
        else:
            self._partitions()

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        self._check_open()
        if self._group is None:
            raise ValueError("this log was opened without a group: it has no offsets to commit")
        offsets = {
            kafka.TopicPartition(partition.topic, partition.partition): kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in next_offsets.items()
        }
        if offsets:
            asking(f"{self._where}: storing offsets", lambda: self._consumer.commit(offsets, timeout_ms=COMMIT_TIMEOUT_MS))

    def committed(self) -> Mapping[TopicPartition, int]:
        partitions = self._partitions()
        found: Mapping[Any, Any] = {}
        if self._group is not None and partitions:
            wanted = {self._group: partitions}
            what = f"{self._where}: reading offsets"
            found = asking(what, lambda: _with_coordinator(lambda: self._admin.list_group_offsets(wanted)))[self._group]
        # Kafka says -1 for a partition that the group never committed.
        return {
            TopicPartition(partition.topic, partition.partition): max(0, found[partition].offset) if partition in found else 0
            for partition in partitions
        }

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        wanted = dict.fromkeys(self._partitions(), OffsetSpec.LATEST)
        if not wanted:
            return {}
        found = asking(f"{self._where}: reading offsets", lambda: self._admin.list_partition_offsets(wanted))
        return {TopicPartition(partition.topic, partition.partition): answer.offset for partition, answer in found.items()}

    def rewind(self) -> None:
        self._check_open()
        self._pending.clear()
        for partition in self._consumer.assignment():
            offset = None
            if self._group is not None:
                offset = asking(
                    f"{self._where}: reading offsets", partial(self._consumer.committed, partition, timeout_ms=COMMIT_TIMEOUT_MS)
                )
            if offset is None:
                self._consumer.seek_to_beginning(partition)
            else:
                self._consumer.seek(partition, offset)

    def _partitions(self) -> list[Any]:
        """All partitions of our topics that exist, whoever reads them. Raises LogUnavailable."""
        self._check_open()
        found = asking(f"{self._where}: reading topics", lambda: known_topics(self._admin, self._topics))
        return [kafka.TopicPartition(topic, number) for topic in self._topics for number in found.get(topic, [])]

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailable(f"{self._where}: the log is closed")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            closing(self._where, lambda: self._consumer.close(autocommit=False, timeout_ms=COMMIT_TIMEOUT_MS))
            closing(self._where, self._admin.close)


def _record(message: Any) -> Record:
    """Headers that are no text (a Collector's topic may carry any) are read with replacement characters."""
    headers = {name: (value or b"").decode("utf-8", "replace") for name, value in message.headers}
    return Record(message.topic, message.partition, message.offset, headers, message.value or b"", max(0, message.timestamp) * 1_000_000)
