"""The log in one SQLite file: the default, for one machine. Partition 0 only; one consumer per group.

Records that every group has committed are deleted in the background, but for the newest `keep_records` of a topic; the
file keeps its size and reuses the space. A topic that no group commits (dead letters) keeps everything.
"""

import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic

from pipeline.log.limits import check_record
from pipeline.log.sqlite_file import as_log_error, connect, sql
from pipeline.log.sqlite_writer import Append, CommitOffsets, release, share
from schemas.log import Headers, LogFull, LogUnavailable, Record, TopicPartition

KEEP_RECORDS = 1_000
OTHER_PROCESS_SECONDS = 0.05  # how long an append of another process may go unnoticed


class SqliteAppendLog:
    """AppendLog. Appends of many threads share a transaction, so more threads are faster."""

    def __init__(
        self, path: Path, max_body_bytes: int, topics: Sequence[str], keep_records: int = KEEP_RECORDS, max_file_bytes: int | None = None
    ) -> None:
        self._path = path.absolute()
        self._topics, self._max_body_bytes = frozenset(topics), max_body_bytes
        self._writer = share(self._path, keep_records, max_file_bytes)
        self._lock, self._closed = threading.Lock(), False

    def append(self, topic: str, headers: Headers, value: bytes) -> None:
        check_record(self._topics, self._max_body_bytes, topic, headers, value)
        if self._closed:
            raise LogUnavailable(f"{self._path}: the log is closed")
        self._writer.submit(Append(topic, json.dumps(dict(headers)), value))

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        release(self._writer)


class SqliteReadLog:
    """ReadLog. Without a group it reads from the beginning and cannot commit. Nothing is written but commits."""

    def __init__(self, path: Path, topics: Sequence[str], group: str | None, keep_records: int = KEEP_RECORDS) -> None:
        self._path, self._topics, self._group = path.absolute(), list(dict.fromkeys(topics)), group
        self._writer = share(self._path, keep_records, None)
        self._closed = False
        try:
            self._connection = connect(self._path)
            self._connection.execute("PRAGMA query_only = ON")
            self._positions = {partition.topic: offset for partition, offset in self.committed().items()}
        except BaseException:
            release(self._writer)
            raise

    def poll(self, max_records: int, max_bytes: int, timeout_s: float) -> Sequence[Record]:
        until = monotonic() + timeout_s
        while True:
            seen = self._writer.appended()
            records = self._read(max_records, max_bytes)
            left_s = until - monotonic()
            if records or left_s <= 0:
                return records
            self._writer.wait_for_append(seen, min(left_s, OTHER_PROCESS_SECONDS))

    def _read(self, max_records: int, max_bytes: int) -> list[Record]:
        records: list[Record] = []
        for topic in list(self._topics):
            if len(records) == max_records or max_bytes <= 0:
                break
            found = self._read_topic(topic, max_records - len(records), max_bytes, oversize=not records)
            max_bytes -= sum(len(record.value) for record in found)
            records += found
            if found:
                self._positions[topic] = found[-1].offset + 1
                # The next poll begins with the others, so that a full topic cannot starve them.
                self._topics.remove(topic)
                self._topics.append(topic)
        return records

    def _read_topic(self, topic: str, max_records: int, max_bytes: int, oversize: bool) -> list[Record]:
        records: list[Record] = []
        wanted = {"topic": topic, "from_offset": self._positions[topic], "max_records": max_records}
        try:
            with closing(self._open().execute(sql("read"), wanted)) as cursor:
                for offset, headers, value in cursor:
                    max_bytes -= len(value)
                    if max_bytes < 0 and (records or not oversize):
                        break
                    records.append(Record(topic, 0, offset, json.loads(headers), value))
        except sqlite3.Error as error:
            raise as_log_error(self._path, error) from error
        return records

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        self._open()
        if self._group is None:
            raise ValueError("this log was opened without a group: it has no offsets to commit")
        if next_offsets:
            try:
                self._writer.submit(CommitOffsets(self._group, {partition.topic: offset for partition, offset in next_offsets.items()}))
            except LogFull as error:
                raise LogUnavailable(f"cannot store offsets: {error}") from error

    def committed(self) -> Mapping[TopicPartition, int]:
        return {TopicPartition(topic, 0): self._number("committed", {"group": self._group, "topic": topic}) for topic in self._topics}

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        return {TopicPartition(topic, 0): self._number("next_offset", {"topic": topic}) for topic in self._topics}

    def _number(self, name: str, parameters: Mapping[str, str | None]) -> int:
        try:
            row = self._open().execute(sql(name), parameters).fetchone()
        except sqlite3.Error as error:
            raise as_log_error(self._path, error) from error
        return 0 if row is None else int(row[0])

    def rewind(self) -> None:
        self._positions = {partition.topic: offset for partition, offset in self.committed().items()}

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise LogUnavailable(f"{self._path}: the log is closed")
        return self._connection

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connection.close()
            release(self._writer)
