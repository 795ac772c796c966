"""Log -> store: poll, insert, commit exactly these offsets. Killed at any point, it loses nothing and doubles nothing.

An outage (store or log) commits nothing and is tried again; bad data goes to the dead letters and work goes on, until there
is so much of it that a person must look.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.errors import DependencyDown, LogDown
from pipeline.loading import dead_letter
from pipeline.loading.admission import Refusal, admit, sources
from pipeline.loading.envelope import Arrival
from pipeline.loading.inserter import Inserter
from pipeline.loading.item_count import count_items
from pipeline.loading.refusal_limit import RefusalLimit
from pipeline.store.client import Store
from schemas.log import AppendLog, LogFull, LogUnavailable, ReadLog, Record, TopicPartition
from schemas.settings import Settings

POLL_RECORDS_MAX = 10_000
IDLE_POLL_SECONDS = 0.5  # how long a step waits on an empty log, so that a stop is noticed
INSERTS_AT_ONCE = 2
BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX = 0.1, 5.0
OUTAGE_ATTEMPTS_MAX = 720  # an hour of the longest delay, then the process ends with exit 3
STOP_SECONDS = 10.0  # how long a stopped loader goes on with what is already in the log


@dataclass(frozen=True, slots=True)
class LoadedBatch:
    """What one step did. `messages` counts all records of the batch, dead letters included."""

    messages: int = 0
    spans: int = 0
    body_bytes: int = 0
    dead_letters: int = 0
    newest_received_ns: int = 0


@dataclass(slots=True)
class Counters:
    """Since the start of this process. `stored_received_ns` is the newest receipt that is queryable, known since
    `stored_at_ns`; `outage` says what is down at present."""

    batches: int = 0
    messages: int = 0
    spans: int = 0
    body_bytes: int = 0
    dead_letters: int = 0
    outages: int = 0
    stored_received_ns: int = 0
    stored_at_ns: int = 0
    outage: str = ""


class Loader:
    """One consumer of the log. One thread calls `step` or `run`; any may read `counters`."""

    def __init__(
        self,
        read_log: ReadLog,
        store: Store,
        dead_letters: AppendLog,
        settings: Settings,
        clock: Callable[[], int] = time.time_ns,
        sleeper: Callable[[float], object] = time.sleep,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = settings.loader
        self._read_log, self._dead_letters, self._limits = read_log, dead_letters, limits
        self._clock, self._sleep, self._timer = clock, sleeper, timer
        self._sources = sources(settings.topic)
        self._inserter = Inserter(
            store,
            at_once=INSERTS_AT_ONCE,
            piece_bytes=limits.batch_bytes,
            piece_items=limits.batch_spans,
            max_age_days=settings.attribution.max_span_age_days,
            run_max=limits.dead_letter_run_max,
        )
        self._refusals = RefusalLimit(limits.dead_letter_ratio_max, limits.dead_letter_run_max)
        self._must_rewind = False
        self.counters = Counters()

    def run(self, stop: threading.Event) -> None:
        """Steps until `stop`, then for STOP_SECONDS at most until the log has nothing ready.

        Raises TooManyDeadLetters, or DependencyDown after OUTAGE_ATTEMPTS_MAX attempts in a row (one, when stopping).
        """
        attempts, until = 0, None
        while True:
            if stop.is_set() and until is None:
                until = self._timer() + STOP_SECONDS
            try:
                batch = self.step(IDLE_POLL_SECONDS if until is None else 0.0)
            except DependencyDown as error:
                attempts += 1
                self.counters.outages += attempts == 1
                self.counters.outage = str(error)
                if until is not None or attempts >= OUTAGE_ATTEMPTS_MAX:
                    raise
                self._sleep(min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN * 2 ** min(attempts - 1, 10)))
                continue
            attempts, self.counters.outage = 0, ""
            if until is not None and (not batch.messages or self._timer() >= until):
                return

    def step(self, idle_s: float = IDLE_POLL_SECONDS) -> LoadedBatch:
        """One batch within the limits: stored, then committed. Empty after `idle_s` without a record.

        Raises DependencyDown or TooManyDeadLetters with nothing committed; the next step begins at the committed offsets.
        """
        try:
            # Not when the error is raised: a log that is down cannot go back, and going on from there would skip the batch.
            if self._must_rewind:
                self._read_log.rewind()
            self._must_rewind = True
            batch = self._poll_and_load(idle_s)
            self._must_rewind = False
        except (LogUnavailable, LogFull) as error:
            raise LogDown(f"log: {error}") from error
        if batch.messages:
            self._count(batch)
        return batch

    def _poll_and_load(self, idle_s: float) -> LoadedBatch:
        records = self._poll(idle_s)
        if not records:
            return LoadedBatch()
        batch = self._load(records)
        self._read_log.commit(_next_offsets(records))
        return batch

    def _poll(self, idle_s: float) -> list[Record]:
        """Records up to the limits of number, bytes, spans and time; the time runs from the first one."""
        records: list[Record] = []
        bytes_left, spans_left, until = self._limits.batch_bytes, self._limits.batch_spans, 0.0
        while bytes_left > 0 and spans_left > 0 and len(records) < POLL_RECORDS_MAX:
            wait_s = until - self._timer() if records else idle_s
            if records and wait_s <= 0:
                break
            more = self._read_log.poll(POLL_RECORDS_MAX - len(records), bytes_left, wait_s)
            if not more:
                break
            if not records:
                until = self._timer() + self._limits.batch_seconds
            records += more
            bytes_left -= sum(len(record.value) for record in more)
            spans_left -= sum(count_items(record.value) for record in more)
        return records

    def _load(self, records: Sequence[Record]) -> LoadedBatch:
        """Stores what can be stored, keeps the rest as dead letters. Everything is durable when it returns."""
        now_ns = self._clock()
        judged = [admit(record, self._sources[record.topic], now_ns) for record in records]
        arrivals = [one for one in judged if isinstance(one, Arrival)]
        refused = {_place(one.record): one for one in judged if isinstance(one, Refusal)}
        for signal in ("traces", "metrics"):
            of_signal = [one for one in arrivals if self._sources[one.record.topic].signal == signal]
            refused |= {_place(one.record): one for one in self._inserter.store(signal, of_signal)}
        in_order = [refused.get(_place(record)) for record in records]
        refusals = self._refusals.after(in_order)
        for refusal in in_order:
            if refusal is not None:
                dead_letter.append(self._dead_letters, refusal)
        self._refusals = refusals
        stored = [one for one in arrivals if _place(one.record) not in refused]
        spans = (one for one in stored if self._sources[one.record.topic].signal == "traces")
        return LoadedBatch(
            messages=len(records),
            spans=sum(count_items(one.record.value) for one in spans),
            body_bytes=sum(len(record.value) for record in records),
            dead_letters=len(refused),
            newest_received_ns=max((one.received_ns for one in stored), default=0),
        )

    def _count(self, batch: LoadedBatch) -> None:
        counters = self.counters
        counters.batches += 1
        counters.messages += batch.messages
        counters.spans += batch.spans
        counters.body_bytes += batch.body_bytes
        counters.dead_letters += batch.dead_letters
        counters.stored_received_ns = max(counters.stored_received_ns, batch.newest_received_ns)
        counters.stored_at_ns = self._clock()

    def close(self) -> None:
        """Closes what it opened itself; log and store belong to the caller."""
        self._inserter.close()


def _place(record: Record) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def _next_offsets(records: Sequence[Record]) -> Mapping[TopicPartition, int]:
    return {TopicPartition(record.topic, record.partition): record.offset + 1 for record in sorted(records, key=_place)}
