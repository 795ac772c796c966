"""A loader in a process of its own, which kills itself at the step it is told:
`python -m tests.loader_process DIR LOG_URL TOPIC KILL_AT BATCH`. TOPIC is one that a Collector writes; the group has its name.

KILL_AT: `poll`, `insert`, `stored`, `commit`, `committed` (in or after the BATCHth of these), or `never`: then it loads
until the log is empty and prints what the store holds as JSON.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.loading import dead_letter
from pipeline.loading.loader import Loader
from pipeline.log import open_append_log, open_read_log
from pipeline.store.client import Store, open_store
from pipeline.store.migrate import migrate
from schemas.log import DEAD_LETTERS_TOPIC, ReadLog, Record, TopicPartition
from schemas.settings import LoaderSettings, LogSettings, Settings, StoreSettings, TopicSettings

BATCH_SPANS, POLL_RECORDS = 200, 4  # so that there are some ten batches


class Countdown:
    """Kills this process when its step was reached `batch` times."""

    def __init__(self, step: str, batch: int) -> None:
        self._step, self._left = step, batch

    def reached(self, step: str, after_s: float = 0.0) -> None:
        if step != self._step:
            return
        self._left -= 1
        if self._left == 0:
            if not after_s:
                die()
            threading.Timer(after_s, die).start()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingLog:
    """A ReadLog around the real one."""

    def __init__(self, log: ReadLog, countdown: Countdown) -> None:
        self._log, self._countdown = log, countdown

    def poll(self, max_records: int, max_bytes: int, timeout_s: float) -> Sequence[Record]:
        records = self._log.poll(min(max_records, POLL_RECORDS), max_bytes, timeout_s)
        if records:
            self._countdown.reached("poll")
        return records

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        self._countdown.reached("commit")
        self._log.commit(next_offsets)
        self._countdown.reached("committed")

    def committed(self) -> Mapping[TopicPartition, int]:
        return self._log.committed()

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        return self._log.end_offsets()

    def rewind(self) -> None:
        self._log.rewind()

    def close(self) -> None:
        self._log.close()


class DyingStore(Store):
    """The real store; dies a few milliseconds into an insert, or when it has returned."""

    def __init__(self, store: Store, countdown: Countdown) -> None:
        super().__init__(store._settings, store._client, store.embedded)
        self._countdown = countdown

    def insert(self, table: str, data: bytes, form: str, settings: Mapping[str, int | str] | None = None) -> None:
        self._countdown.reached("insert", after_s=0.02)
        super().insert(table, data, form, settings)
        self._countdown.reached("stored")

    def another(self) -> Store:
        return DyingStore(super().another(), self._countdown)


def main(directory: str, log_url: str, topic: str, kill_at: str, batch: str) -> None:
    countdown = Countdown(kill_at, int(batch))
    settings = Settings(
        log=LogSettings(url=log_url),
        store=StoreSettings(url=f"chdb:{directory}/store"),
        loader=LoaderSettings(batch_spans=BATCH_SPANS),
        topic=(TopicSettings(name=topic, signal="traces", principal="platform"),),
    )
    store = open_store(settings.store)
    migrate(store)
    letters = open_append_log(settings.log, settings.receive.max_body_bytes, [topic, DEAD_LETTERS_TOPIC])
    reading = open_read_log(settings.log, [topic], topic)
    loader = Loader(DyingLog(reading, countdown), DyingStore(store, countdown), letters, settings)
    print("ready", flush=True)
    while _lag(reading):
        loader.step(5.0)
    print(json.dumps(_found(store, settings, topic)), flush=True)
    loader.close()
    reading.close()
    letters.close()
    store.close()


def _lag(reading: ReadLog) -> int:
    committed = reading.committed()
    return sum(end - committed.get(partition, 0) for partition, end in reading.end_offsets().items())


def _found(store: Store, settings: Settings, topic: str) -> dict[str, int]:
    rows, distinct = store.query("SELECT (SELECT count() FROM spans FINAL), (SELECT uniqExact(trace_id, span_id) FROM spans)").rows[0]
    arrivals = store.query("SELECT uniqExact(topic, log_partition, log_offset) FROM arrivals FINAL").scalar()
    of_letters = open_read_log(settings.log, [DEAD_LETTERS_TOPIC], None)
    found = [letter.source_offset for letter in dead_letter.entries(of_letters) if letter.source.topic == topic]
    of_letters.close()
    return {"rows": rows, "distinct": distinct, "messages": arrivals, "letters": len(found)}


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    main(*sys.argv[1:])
