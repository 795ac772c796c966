"""The one thread that writes a log file in this process. Whatever waits when it turns round shares one transaction."""

import logging
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.log.sqlite_file import as_log_error, connect, is_full, roll_back, sql
from schemas.log import LogFull, LogUnavailable

WAITING_BYTES_MAX = 33_554_432
PATIENCE_SECONDS = 10.0
CHECKPOINT_BYTES = 8_388_608
TRIM_RECORDS = 64  # at a time; more than a batch appends on average, so trimming keeps up and nobody waits for long

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Append:
    topic: str
    headers: str
    value: bytes


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    group: str
    next_offsets: Mapping[str, int]


Job = Append | CommitOffsets


@dataclass(slots=True, eq=False)
class Waiting:
    job: Job
    size_bytes: int
    done: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None


class SqliteWriter:
    """Made by `share` only. Safe to use from any thread."""

    def __init__(self, path: Path, keep_records: int, max_file_bytes: int | None) -> None:
        self.path, self.users = path, 0
        self._keep_records, self._max_file_bytes = max(1, keep_records), max_file_bytes
        self._changed = threading.Condition()  # guards the queue, the counter and the flag
        self._queue: list[Waiting] = []
        self._queued_bytes = 0
        self._appended = 0
        self._closing = False
        self._thread: threading.Thread | None = None
        # Only the thread touches these two.
        self._trimmable: list[str] = []
        self._unchecked_bytes = 0
        connect(path, max_file_bytes).close()  # an unusable file is told at once

    def submit(self, job: Job) -> None:
        """Returns once the job is committed. Raises LogFull (nothing was stored) or LogUnavailable."""
        waiting = Waiting(job, len(job.value) + len(job.headers) if isinstance(job, Append) else 0)
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(waiting.size_bytes), PATIENCE_SECONDS):
                raise LogFull(f"{self.path}: {self._queued_bytes} bytes wait to be written; the disk is too slow for the senders")
            if self._closing:
                raise LogUnavailable(f"{self.path}: the log is closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tokenpath-log-writer", daemon=True)
                self._thread.start()
            self._queue.append(waiting)
            self._queued_bytes += waiting.size_bytes
            self._changed.notify_all()
        waiting.done.wait()
        if waiting.error is not None:
            raise waiting.error

    def _has_room(self, size_bytes: int) -> bool:
        return self._closing or not self._queue or self._queued_bytes + size_bytes <= WAITING_BYTES_MAX

    def appended(self) -> int:
        """Grows with every append of this process: what `wait_for_append` compares with."""
        with self._changed:
            return self._appended

    def wait_for_append(self, seen: int, timeout_s: float) -> None:
        """Returns when something was appended here after `appended()` said `seen`, at the latest after timeout_s."""
        with self._changed:
            self._changed.wait_for(lambda: self._appended != seen, timeout_s)

    def close(self) -> None:
        """What was submitted is still written."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while (batch := self._next_batch()) is not None:
            try:
                if connection is None:
                    connection = connect(self.path, self._max_file_bytes)
                appended = write_batch(connection, batch)
                self._acknowledge(batch, appended)
                self._tidy(connection, batch)
            except Exception as error:  # those who wait must hear of every failure, bugs included, or they wait for ever
                if connection is not None:
                    connection.close()
                connection = None
                self._fail(batch, error)
        if connection is not None:
            connection.close()

    def _next_batch(self) -> list[Waiting] | None:
        """All that waits; empty when there is only something to trim, None when the file is to be closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing or self._trimmable)
            if self._closing and not self._queue:
                return None
            batch, self._queue, self._queued_bytes = self._queue, [], 0
            self._changed.notify_all()
            return batch

    def _acknowledge(self, batch: Sequence[Waiting], appended: int) -> None:
        for waiting in batch:
            if waiting.error is not None:
                waiting.error = as_log_error(self.path, waiting.error)
            waiting.done.set()
        with self._changed:
            self._appended += appended
            self._changed.notify_all()

    def _fail(self, batch: Sequence[Waiting], error: Exception) -> None:
        told = as_log_error(self.path, error)
        if all(waiting.done.is_set() for waiting in batch):
            self._trimmable.clear()  # tried again after the next commit
            logger.warning("%s: could not tidy up after a commit, committed records stay for now: %s", self.path, told)
        for waiting in batch:
            if not waiting.done.is_set():
                waiting.error = told
                waiting.done.set()

    def _tidy(self, connection: sqlite3.Connection, batch: Sequence[Waiting]) -> None:
        """Nobody waits for this: deletes some committed records, moves the WAL into the file."""
        for waiting in batch:
            if isinstance(waiting.job, CommitOffsets):
                self._trimmable.extend(topic for topic in waiting.job.next_offsets if topic not in self._trimmable)
        self._trimmable = [topic for topic in self._trimmable if trim(connection, topic, self._keep_records)]
        self._unchecked_bytes += sum(waiting.size_bytes for waiting in batch)
        if self._unchecked_bytes >= CHECKPOINT_BYTES:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            self._unchecked_bytes = 0


def write_batch(connection: sqlite3.Connection, batch: Sequence[Waiting]) -> int:
    """Writes all in one transaction and returns how many records were appended.
    When the disk is full each is tried alone: a small one, above all a commit of offsets, may still fit."""
    if not batch:
        return 0
    try:
        return _write_together(connection, [waiting.job for waiting in batch])
    except sqlite3.Error as error:
        roll_back(connection)
        if not is_full(error):
            raise
        if len(batch) == 1:
            batch[0].error = error
            return 0
    return sum(write_batch(connection, [waiting]) for waiting in batch)


def _write_together(connection: sqlite3.Connection, jobs: Sequence[Job]) -> int:
    next_offsets: dict[str, int] = {}
    rows: list[tuple[str, int, str, bytes]] = []
    connection.execute("BEGIN IMMEDIATE")  # other processes may append too: offsets are read under the lock
    for job in jobs:
        if isinstance(job, CommitOffsets):
            for topic, next_offset in job.next_offsets.items():
                connection.execute(sql("commit"), {"group": job.group, "topic": topic, "next_offset": next_offset})
            continue
        if job.topic not in next_offsets:
            (next_offsets[job.topic],) = connection.execute(sql("next_offset"), {"topic": job.topic}).fetchone()
        rows.append((job.topic, next_offsets[job.topic], job.headers, job.value))
        next_offsets[job.topic] += 1
    connection.executemany(sql("append"), rows)
    connection.execute("COMMIT")
    return len(rows)


def trim(connection: sqlite3.Connection, topic: str, keep_records: int) -> bool:
    """Deletes up to TRIM_RECORDS of what every group has committed, less the newest keep_records (at least one, so that
    offsets never start again). True when more can be deleted."""
    (first,) = connection.execute(sql("first_offset"), {"topic": topic}).fetchone()
    (slowest,) = connection.execute(sql("slowest_group"), {"topic": topic}).fetchone()
    (end,) = connection.execute(sql("next_offset"), {"topic": topic}).fetchone()
    if first is None or slowest is None:
        return False
    before = min(slowest, end) - keep_records
    if before <= first:
        return False
    connection.execute(sql("trim"), {"topic": topic, "before_offset": min(before, first + TRIM_RECORDS)})
    return bool(before > first + TRIM_RECORDS)


_shared: dict[Path, SqliteWriter] = {}
_shared_lock = threading.Lock()


def share(path: Path, keep_records: int, max_file_bytes: int | None) -> SqliteWriter:
    """The one writer of this path in this process: two would fight for the lock, and readers wait for its appends.
    The first caller's limits count. Give it back with `release`."""
    with _shared_lock:
        writer = _shared.get(path)
        if writer is None:
            writer = _shared[path] = SqliteWriter(path, keep_records, max_file_bytes)
        writer.users += 1
        return writer


def release(writer: SqliteWriter) -> None:
    """The last one closes the file, after what was submitted is written."""
    with _shared_lock:
        writer.users -= 1
        if writer.users:
            return
        del _shared[writer.path]
        writer.close()
