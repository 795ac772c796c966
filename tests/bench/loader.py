"""The loader alone: a log that is already full, in memory and in SQLite, against the bare insert of the same bytes into the same tables.

The bare insert has pieces of the loader's size and as many of them at once, and nothing else: no log, no check, no commit.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path

from pipeline.loading.envelope import Arrival, insert, wrap
from pipeline.loading.inserter import cut
from pipeline.loading.loader import INSERTS_AT_ONCE, Loader
from pipeline.log import open_append_log, open_read_log
from pipeline.store.client import Store, open_store
from pipeline.store.migrate import migrate
from schemas.log import DEAD_LETTERS_TOPIC, LOADER_GROUP, TRACES_TOPIC, AppendLog, ReadLog, Record
from schemas.settings import LogSettings, Settings, StoreSettings
from tests.bench.traffic import body, copies, recorded
from tests.memory_read_log import MemoryReadLog

TOPICS = (TRACES_TOPIC, DEAD_LETTERS_TOPIC)
LEAD_NS = 600 * 10**9
Spent = tuple[float, float]  # seconds by the clock, and of this process's CPU


def measure(spans: int = 1_000_000, requests: int = 2000) -> dict[str, float]:
    """`spans` new spans for each of: bare insert, loader on a log in memory, loader on SQLite. Rates until all are queryable.

    Raises RuntimeError if a span is missing or there twice.
    """
    start_ns = time.time_ns() - LEAD_NS
    stream = copies([body(content) for content in recorded(requests, start_ns)])
    settings = Settings()
    headers = {"content": "otlp_proto", "principal": "platform", "ingest_key": "bench", "received_ns": str(time.time_ns())}
    with tempfile.TemporaryDirectory() as directory, closing(open_store(StoreSettings(url=f"chdb:{directory}/store"))) as store:
        migrate(store)
        _bare(store, [content for _, content in islice(stream, 20)], settings)
        bodies = list(_bodies(stream, spans))
        bare_seconds, bare_cpu = _bare(store, bodies, settings)
        memory = MemoryReadLog()
        for content in _bodies(stream, spans):
            memory.append(TRACES_TOPIC, headers, content)
        memory_seconds, memory_cpu = _load(store, memory, memory, settings)
        sqlite = LogSettings(url=f"sqlite:{Path(directory) / 'log.sqlite'}")
        with closing(open_append_log(sqlite, settings.receive.max_body_bytes, TOPICS)) as log:
            for content in _bodies(stream, spans):
                log.append(TRACES_TOPIC, headers, content)
            with closing(open_read_log(sqlite, [TRACES_TOPIC], LOADER_GROUP)) as reading:
                sqlite_seconds, sqlite_cpu = _load(store, reading, log, settings)
        figures = _stored(store)
    return {
        "rows_per_second": spans / sqlite_seconds,
        "rows_per_second_memory": spans / memory_seconds,
        "rows_per_second_bare": spans / bare_seconds,
        "ratio": bare_seconds / sqlite_seconds,
        "ratio_memory": bare_seconds / memory_seconds,
        "cpu_us_per_span": 1e6 * sqlite_cpu / spans,
        "cpu_us_per_span_memory": 1e6 * memory_cpu / spans,
        "cpu_us_per_span_bare": 1e6 * bare_cpu / spans,
        "body_bytes_per_span": sum(map(len, bodies)) / spans,
        **figures,
    }


def _bodies(stream: Iterator[tuple[int, bytes]], spans: int) -> Iterator[bytes]:
    """Bodies of at least `spans` spans; the last one may exceed it by its own size."""
    held = 0
    while held < spans:
        of_body, content = next(stream)
        held += of_body
        yield content


def _bare(store: Store, bodies: Sequence[bytes], settings: Settings) -> Spent:
    arrivals = [
        Arrival(Record("bare", 0, offset, {}, content), time.time_ns(), "platform", "bench") for offset, content in enumerate(bodies)
    ]
    pieces = [wrap(piece) for piece in cut(arrivals, settings.loader.batch_bytes // INSERTS_AT_ONCE, settings.loader.batch_spans)]
    with ExitStack() as stack:
        handles = [store, *(stack.enter_context(closing(store.another())) for _ in range(INSERTS_AT_ONCE - 1))]
        began, cpu = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(INSERTS_AT_ONCE) as threads:
            list(threads.map(_insert_all, handles, [pieces[number::INSERTS_AT_ONCE] for number in range(INSERTS_AT_ONCE)]))
        return time.perf_counter() - began, time.process_time() - cpu


def _insert_all(handle: Store, pieces: Sequence[bytes]) -> None:
    for piece in pieces:
        insert(handle, "traces", piece)


def _load(store: Store, reading: ReadLog, letters: AppendLog, settings: Settings) -> Spent:
    with closing(Loader(reading, store, letters, settings)) as loader:
        began, cpu = time.perf_counter(), time.process_time()
        while loader.step(0.0).messages:
            pass
        return time.perf_counter() - began, time.process_time() - cpu


def _stored(store: Store) -> dict[str, float]:
    count, distinct = store.query("SELECT (SELECT count() FROM spans), (SELECT count() FROM spans FINAL)").rows[0]
    if count != distinct:
        raise RuntimeError(f"{count} rows are stored for {distinct} spans")
    store.command("OPTIMIZE TABLE spans FINAL")
    size = store.query("SELECT sum(bytes_on_disk) / sum(rows) FROM system.parts WHERE table = 'spans' AND active").scalar()
    attributes = store.query("SELECT avg(length(attributes)), avg(length(resource)) FROM spans").rows[0]
    return {"bytes_per_span": size, "attributes_per_span": attributes[0], "resource_attributes": attributes[1], "stored_spans": count}
