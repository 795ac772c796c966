"""Reads files row by row and appends their spans to the log, a batch at a time. Rows that cannot be read are kept beside the file.

Memory does not grow with the file. What was appended is noted after each batch; the ids of the spans are the records' own, so that
a batch which was appended but not noted is stored once all the same.
"""

import gzip
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from pipeline.errors import ConfigurationError
from pipeline.importing.position import Position, Positions, after
from pipeline.importing.rejected import Rejected
from pipeline.importing.summary import Summary
from schemas.log import TRACES_TOPIC, AppendLog, LogFull

BATCH_BYTES = 1_048_576
GZIP_MAGIC = b"\x1f\x8b"
AHEAD_NS = 3_600_000_000_000  # as the view: what begins or ends later than an hour from now is a clock's fault
PATIENCE_SECONDS = (1, 2, 4, 8, 15, 30)  # for a log that is full
NOTE_BYTES = 8_388_608  # of rows, after which the position is noted


class Record(Protocol):
    """One row of a file, as the collectors read it: `spans`, or why there are none."""

    @property
    def line(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def end_line(self) -> int: ...
    @property
    def raw(self) -> bytes: ...
    @property
    def spans(self) -> bytes: ...
    @property
    def kind(self) -> str: ...
    @property
    def started_ns(self) -> int: ...
    @property
    def ended_ns(self) -> int: ...
    @property
    def tenant(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def left_out(self) -> str: ...
    @property
    def refused(self) -> str: ...


Read = Callable[[BinaryIO, int, int], Iterator[Record]]  # from an offset and its line
Step = Callable[[int, int], None]


@dataclass(frozen=True)
class Options:
    """`marks`: whatever else makes it another import (format, service). `rejected_dir`: where rejected rows go; None: beside each file."""

    files: tuple[Path, ...]
    principal: str
    marks: tuple[str, ...]
    max_age_ns: int
    max_body_bytes: int
    rejected_dir: Path | None = None
    from_beginning: bool = False
    dry_run: bool = False

    def rejected_path(self, file: Path) -> Path:
        return (self.rejected_dir or file.parent) / f"{file.name}.rejected.jsonl"


@dataclass
class Import:
    """`log` is None for a dry run."""

    options: Options
    read: Read
    log: AppendLog | None
    positions: Positions
    clock: Callable[[], int] = time.time_ns
    sleeper: Callable[[float], object] = time.sleep
    summary: Summary = field(default_factory=Summary)

    def run(self, step: Step) -> Summary:
        """Raises ConfigurationError for a file that cannot be used, LogFull and LogUnavailable. Rejected rows are in the summary."""
        files = self.options.files
        if len({self.options.rejected_path(path) for path in files}) < len(files):
            raise ConfigurationError("two of the files would keep their rejected rows in the same file: import them one after the other")
        sizes = [_size(path) for path in files]
        for number, path in enumerate(files):
            before = sum(sizes[:number])
            self._file(path, lambda at, before=before: step(before + at, sum(sizes)))  # type: ignore[misc]
        return self.summary

    def _file(self, path: Path, step: Callable[[int], None]) -> None:
        with _content(path) as (content, raw):
            begin = position = self._begin(path, content)
            batch = Batch(self._append, self.options.max_body_bytes)
            with Rejected(self.options.rejected_path(path), begin.rejected_bytes, self.options.dry_run) as rejected:
                read_bytes = 0
                try:
                    for record in self.read(content, begin.offset, begin.line):
                        self._take(path, record, batch, rejected)
                        read_bytes += len(record.raw)
                        if record.end > position.offset:  # not where the file ends in the middle of a row: that is read again
                            position = after(position, record.end, record.end_line, rejected.size)
                        if read_bytes >= NOTE_BYTES:
                            read_bytes = 0
                            self._note(path, position, batch, rejected)
                            step(raw.tell())
                except (EOFError, gzip.BadGzipFile) as error:
                    self.summary.reject(str(path), position.line, f"the gzip file is broken or not complete after this line: {error}")
                self._note(path, position, batch, rejected)
                if rejected.size:
                    self.summary.rejected_files.append(str(rejected.path))
            step(raw.tell())

    def _begin(self, path: Path, content: BinaryIO) -> Position:
        known = self.positions.of(path, self._marks, content)
        if self.options.from_beginning or self.options.dry_run:
            return replace(known, offset=0, line=1, rejected_bytes=0)
        if known.offset:
            self.summary.resumed[str(path)] = known.line
        return known

    def _note(self, path: Path, position: Position, batch: "Batch", rejected: Rejected) -> None:
        """What comes before `position` is safe after this."""
        batch.flush()
        rejected.flush()
        if not self.options.dry_run:
            self.positions.keep(path, self._marks, position)

    @property
    def _marks(self) -> Sequence[str]:
        return (self.options.principal, *self.options.marks)

    def _take(self, path: Path, record: Record, batch: "Batch", rejected: Rejected) -> None:
        if record.left_out:
            self.summary.left_out[record.left_out] += 1
        elif why := record.refused or self._untimely(record) or self._oversize(record):
            self.summary.reject(str(path), record.line, why)
            rejected.add(path, record.line, record.raw, why)
        else:
            self.summary.take(record.kind, record.started_ns, record.tenant, record.model)
            batch.add(record.spans)

    def _untimely(self, record: Record) -> str:
        now_ns = self.clock()
        if record.started_ns < now_ns - self.options.max_age_ns:
            self.summary.too_old += 1
            days = self.options.max_age_ns // 86_400_000_000_000
            return f"older than {days} days ([attribution] max_span_age_days), which is as far back as the store goes"
        late = max(record.started_ns, record.ended_ns) > now_ns + AHEAD_NS
        return "it begins or ends more than an hour from now: another clock, or another unit of time" if late else ""

    def _oversize(self, record: Record) -> str:
        limit = self.options.max_body_bytes
        return f"its spans take {len(record.spans)} bytes; [receive] max_body_bytes is {limit}" if len(record.spans) > limit else ""

    def _append(self, value: bytes) -> None:
        if self.log is None:
            return
        headers = {
            "principal": self.options.principal,
            "ingest_key": "import",
            "received_ns": str(self.clock()),
            "content": "otlp_proto",
        }
        for seconds in (*PATIENCE_SECONDS, None):
            try:
                self.log.append(TRACES_TOPIC, headers, value)
                return
            except LogFull:
                if seconds is None:
                    raise
                self.sleeper(seconds)


class Batch:
    """Requests put together into one, which is as long as the log takes it."""

    def __init__(self, append: Callable[[bytes], None], max_bytes: int) -> None:
        self._append, self._max_bytes = append, min(BATCH_BYTES, max_bytes)
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes) -> None:
        if self._size + len(part) > self._max_bytes:
            self.flush()
        self._parts.append(part)
        self._size += len(part)

    def flush(self) -> None:
        if self._parts:
            self._append(b"".join(self._parts))  # messages one after the other are one message
        self._parts, self._size = [], 0


@contextmanager
def _content(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """(unpacked content, file). gzip is known by its first bytes, whatever the name."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            if packed:
                with gzip.open(raw) as content:
                    yield cast(BinaryIO, content), raw
            else:
                yield raw, raw
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile) or error.filename is None:
            raise
        raise ConfigurationError(f"{path}: {error.strerror}") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
