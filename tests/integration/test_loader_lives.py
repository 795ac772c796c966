"""SIGKILL of a real loader process at each of its steps and at random moments, on SQLite and on Kafka: nothing lost, nothing doubled."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline.log import open_append_log
from schemas.log import DEAD_LETTERS_TOPIC, METRICS_TOPIC, TRACES_TOPIC
from schemas.settings import LogSettings
from tests.kafka_broker import KafkaBroker
from tests.otlp_bodies import trace_request
from tests.processes import environment

BODIES, SPANS_PER_BODY = 120, 25
SPANS = BODIES * SPANS_PER_BODY
STEPS = ("polled", "inserting", "inserted", "committing", "committed")

# A loader whose process kills itself when it comes to `step` for the n-th time; batches are small, so that there are many of each.
LOADER = """
import os, signal, sys, threading, time
from pipeline.loader import Loader
from pipeline.log import open_append_log, open_read_log
from pipeline.migrate import migrate
from pipeline.store import Store, open_store
from schemas.log import DEAD_LETTERS_TOPIC, LOADER_GROUP, TRACES_TOPIC
from schemas.settings import LoaderSettings, LogSettings, Settings, StoreSettings

log_url, store_path, wanted_step, wanted_count = sys.argv[1:5]
counts = {}

def reached(step):
    counts[step] = counts.get(step, 0) + 1
    if step == wanted_step and counts[step] == int(wanted_count):
        os.kill(os.getpid(), signal.SIGKILL)

class Marked:
    def __init__(self, inner):
        self._inner = inner
    def __getattr__(self, name):
        return getattr(self._inner, name)
    def poll(self, *arguments):
        records = self._inner.poll(*arguments)
        if records:
            reached("polled")
        return records
    def commit(self, offsets):
        reached("committing")
        self._inner.commit(offsets)
        reached("committed")

def insert(self, *arguments, **named):
    # Half of the time the kill comes while the engine writes.
    if wanted_step == "inserting":
        threading.Timer(0.0005, lambda: reached("inserting")).start()
    original(self, *arguments, **named)
    reached("inserted")

original, Store.insert = Store.insert, insert
settings = Settings(loader=LoaderSettings(batch_bytes=8192, batch_seconds=0.01))
store = open_store(StoreSettings(url="chdb:" + store_path))
migrate(store)
log = LogSettings(url=log_url)
reading = open_read_log(log, [TRACES_TOPIC], LOADER_GROUP)
letters = open_append_log(log, 4_194_304, [TRACES_TOPIC, DEAD_LETTERS_TOPIC])
loader = Loader(Marked(reading), store, letters, settings)
print("ready", flush=True)
until = time.monotonic() + 60
while any(reading.committed().get(p, 0) < end for p, end in reading.end_offsets().items()):
    loader.step(0.2)
    if time.monotonic() > until:
        sys.exit("the end of the log was not reached")
print("end", flush=True)
os._exit(0)
"""
COUNT = """
import json, sys
from pipeline.store import open_store
from schemas.settings import StoreSettings
store = open_store(StoreSettings(url="chdb:" + sys.argv[1]))
final = store.query("SELECT count(), uniqExact(span_id), uniqExact(attributes['number']) FROM spans FINAL").rows[0]
arrivals = store.query("SELECT count(), sum(spans) FROM arrivals FINAL").rows[0]
print(json.dumps([*final, *map(int, arrivals)]))
"""


def fill(url: str) -> None:
    """`BODIES` messages whose spans are numbered through."""
    log = open_append_log(LogSettings(url=url), 4_194_304, [TRACES_TOPIC, METRICS_TOPIC, DEAD_LETTERS_TOPIC])
    now_ns = time.time_ns()
    for body in range(BODIES):
        request = trace_request(SPANS_PER_BODY)
        for number, span in enumerate(request.resource_spans[0].scope_spans[0].spans, body * SPANS_PER_BODY):
            span.trace_id, span.span_id = number.to_bytes(16, "big"), (number + 1).to_bytes(8, "big")
            span.start_time_unix_nano, span.end_time_unix_nano = now_ns - 10**9, now_ns
            del span.attributes[:]
            attribute = span.attributes.add()
            attribute.key, attribute.value.string_value = "number", str(number)
        headers = {"principal": "platform", "ingest_key": "", "received_ns": str(now_ns + body), "content": "otlp_proto"}
        log.append(TRACES_TOPIC, headers, request.SerializeToString())
    log.close()


def load(url: str, store: Path, step: str = "none", count: int = 0, kill_after_s: float | None = None) -> bool:
    """One life of a loader. True when it came to the end of the log, False when it was killed."""
    command = [sys.executable, "-c", LOADER, url, str(store), step, str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout
    if kill_after_s is not None and process.stdout.readline() == "ready\n":
        time.sleep(kill_after_s)
        process.kill()
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode == 0


def counted(store: Path) -> list[int]:
    done = subprocess.run([sys.executable, "-c", COUNT, str(store)], capture_output=True, text=True, check=True, env=environment())
    return list(json.loads(done.stdout))


def lives(seed: int) -> Iterator[dict[str, object]]:
    """Each step once, early or later, and a few moments that chance chooses."""
    chance = random.Random(seed)
    for step in STEPS:
        yield {"step": step, "count": chance.randint(1, 3)}
    for _ in range(4):
        yield {"kill_after_s": chance.uniform(0, 0.6)}


def survive(url: str, store: Path, seed: int) -> None:
    fill(url)
    killed = 0
    for life in lives(seed):
        killed += not load(url, store, **life)  # type: ignore[arg-type]
    assert killed >= len(STEPS) - 1, "the loader was not killed often enough for the test to mean anything"
    assert load(url, store)
    assert counted(store) == [SPANS, SPANS, SPANS, BODIES, SPANS]


def test_a_loader_killed_at_every_step_loses_and_doubles_nothing_on_sqlite(tmp_path: Path) -> None:
    survive(f"sqlite:{tmp_path / 'log.sqlite'}", tmp_path / "store", seed=1)


def test_a_loader_killed_at_every_step_loses_and_doubles_nothing_on_kafka(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    kafka_broker.ensure_running()
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap_servers)
    for topic in (TRACES_TOPIC, DEAD_LETTERS_TOPIC):
        if topic in admin.list_topics():
            admin.delete_topics([topic])
    admin.close()
    survive(f"kafka://{kafka_broker.bootstrap_servers}", tmp_path / "store", seed=3)
