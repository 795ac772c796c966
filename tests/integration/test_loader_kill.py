"""A loader that is killed with SIGKILL, again and again, at every step and in between: nothing is lost, nothing is there twice."""

import json
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pipeline.errors import StoreDown
from pipeline.loading.loader import Loader
from pipeline.log import open_append_log
from pipeline.store.client import Store
from schemas.log import DEAD_LETTERS_TOPIC, TRACES_TOPIC
from schemas.settings import LogSettings, Settings
from tests.ingest import RECEIVED_NS
from tests.kafka_broker import KafkaBroker
from tests.memory_read_log import MemoryReadLog
from tests.processes import environment
from tests.trace_bodies import trace_body

MESSAGES, SPANS, CORRUPT = 40, 50, 17
HEADERS = {"content": "otlp_proto", "principal": "platform", "ingest_key": "edge", "received_ns": str(RECEIVED_NS)}
EVERYTHING = {"rows": (MESSAGES - 1) * SPANS, "distinct": (MESSAGES - 1) * SPANS, "messages": MESSAGES - 1, "letters": 1}
TOPIC, HOUR_NS = "otlp_kill", 3_600_000_000_000
ROOT = Path(__file__).resolve().parents[2]


def fill(settings: LogSettings) -> None:
    """Spans of now, since the receipt of a Collector's record is when the log got it."""
    log = open_append_log(settings, 4_194_304, [TOPIC, DEAD_LETTERS_TOPIC])
    for number in range(MESSAGES):
        body = trace_body(number, SPANS, start_ns=time.time_ns() // HOUR_NS * HOUR_NS)
        log.append(TOPIC, {}, b"\x0a\x05\x12" if number == CORRUPT else body)
    log.close()


def start(directory: Path, log_url: str, kill_at: str, batch: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.loader_process", str(directory), log_url, TOPIC, kill_at, str(batch)]
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_to_the_end(directory: Path, log_url: str) -> Mapping[str, int]:
    process = start(directory, log_url, "never", 1)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    found: Mapping[str, int] = json.loads(out.splitlines()[-1])
    return found


def run_until_killed(directory: Path, log_url: str, kill_at: str, batch: int) -> None:
    process = start(directory, log_url, kill_at, batch)
    _, said = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, said


STEPS = ("poll", "insert", "stored", "commit", "committed")


def test_a_kill_at_each_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    log = LogSettings(url=f"sqlite:{tmp_path / 'log.sqlite'}")
    fill(log)
    for step in STEPS:
        run_until_killed(tmp_path, log.url, step, 2)
    assert run_to_the_end(tmp_path, log.url) == EVERYTHING


def test_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path) -> None:
    log = LogSettings(url=f"sqlite:{tmp_path / 'log.sqlite'}")
    fill(log)
    dice = random.Random(11)
    for _ in range(6):
        process = start(tmp_path, log.url, "never", 1)
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        time.sleep(dice.uniform(0.0, 0.6))  # not luck: whatever the moment is, the outcome must be the same
        process.kill()
        process.communicate()
    assert run_to_the_end(tmp_path, log.url) == EVERYTHING


def test_a_kill_at_each_step_with_kafka_loses_and_doubles_nothing(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    kafka_broker.ensure_running()
    log = LogSettings(url=f"kafka://{kafka_broker.bootstrap_servers}")
    fill(log)
    for step in STEPS:
        run_until_killed(tmp_path, log.url, step, 1)
    assert run_to_the_end(tmp_path, log.url) == EVERYTHING


def test_the_whole_log_read_again_from_its_beginning_changes_nothing(store: Store) -> None:
    log = MemoryReadLog()
    for number in range(MESSAGES):
        log.append(TRACES_TOPIC, HEADERS, trace_body(number, SPANS))
    for _ in range(2):
        log.commits.clear()
        log.rewind()
        loader = Loader(log, store, log, Settings())
        assert loader.step(0.0).messages == MESSAGES
        loader.close()
    assert store.query("SELECT count() FROM spans FINAL").scalar() == MESSAGES * SPANS


def test_a_full_disk_is_an_outage_and_the_loader_goes_on_when_there_is_room(store: Store) -> None:
    log = MemoryReadLog()
    log.append(TRACES_TOPIC, HEADERS, trace_body(1, SPANS))
    loader = Loader(log, store, log, Settings())
    store.command("ALTER TABLE spans MODIFY SETTING min_free_disk_bytes_to_perform_insert = 1000000000000000000")
    try:
        with pytest.raises(StoreDown, match="disk full"):
            loader.step(0.0)
        assert not log.commits
        assert not log.records.get(DEAD_LETTERS_TOPIC)
    finally:
        store.command("ALTER TABLE spans RESET SETTING min_free_disk_bytes_to_perform_insert")
    assert loader.step(0.0).spans == SPANS
    assert store.query("SELECT count() FROM spans FINAL").scalar() == SPANS
    loader.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(disk)], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


FULL_DISK = """
import sys
from pipeline.errors import StoreDown
from pipeline.loading.loader import Loader
from pipeline.store.migrate import migrate
from pipeline.store.client import open_store
from schemas.log import TRACES_TOPIC
from schemas.settings import Settings, StoreSettings
from tests.integration.test_loader_kill import HEADERS, SPANS
from tests.memory_read_log import MemoryReadLog
from tests.trace_bodies import trace_body
from pathlib import Path
disk = Path(sys.argv[1])
store = open_store(StoreSettings(url=f"chdb:{disk}/store"))
migrate(store)
log = MemoryReadLog()
loader = Loader(log, store, log, Settings())
ballast = disk / "ballast"
with ballast.open("wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
log.append(TRACES_TOPIC, HEADERS, trace_body(1, SPANS))
try:
    loader.step(0.0)
    print("stored on a full disk")
except StoreDown as error:
    print("outage", log.commits)
ballast.unlink()
print(loader.step(0.0).spans, store.query("SELECT count() FROM spans FINAL").scalar(), flush=True)
"""


def test_a_disk_that_is_really_full_is_an_outage_too(small_disk: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(small_disk)], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines() == ["outage {}", f"{SPANS} {SPANS}"], done.stderr


HALF_A_SCHEMA = """
import hashlib, sys
from pathlib import Path
from pipeline.loading.envelope import decoder_settings
from pipeline.errors import StoreDown
from pipeline.loading.loader import Loader
from pipeline.store.migrate import migrate
from pipeline.store.client import open_store
from schemas.log import TRACES_TOPIC
from schemas.settings import Settings, StoreSettings
from tests.integration.test_loader_kill import HEADERS, SPANS
from tests.memory_read_log import MemoryReadLog
from tests.trace_bodies import trace_body
store = open_store(StoreSettings(url=f"chdb:{sys.argv[1]}"))
migrate(store)
schema = decoder_settings("traces")["format_schema"].encode()
copy = Path(store.path) / "__cache__" / f"{schema[:32].hex().upper()}-{hashlib.sha256(schema).hexdigest().upper()}.proto"
copy.parent.mkdir()
copy.write_bytes(schema[: int(sys.argv[2])])
log = MemoryReadLog()
log.append(TRACES_TOPIC, HEADERS, trace_body(1, SPANS))
loader = Loader(log, store, log, Settings())
try:
    print("stored", loader.step(0.0))
except StoreDown:
    print("outage", log.commits, list(log.records))
print(loader.step(0.0).spans, store.query("SELECT count() FROM spans FINAL").scalar(), flush=True)
"""


@pytest.mark.parametrize("size", [0, 1500])
def test_half_a_schema_left_by_a_full_disk_makes_no_dead_letter_and_is_overcome(tmp_path: Path, size: int) -> None:
    command = [sys.executable, "-c", HALF_A_SCHEMA, str(tmp_path), str(size)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["outage {} ['otlp_spans']", f"{SPANS} {SPANS}"], done.stderr


ELSEWHERE = """
import os, sys
os.chdir(sys.argv[1])
sys.path.insert(0, sys.argv[2])
from pipeline.store.migrate import migrate
from pipeline.store.client import open_store
from schemas.settings import StoreSettings
from tests.ingest import ingest
from tests.trace_bodies import trace_body
store = open_store(StoreSettings(url=f"chdb:{sys.argv[3]}"))
migrate(store)
ingest(store, [trace_body(1)])
print(store.query("SELECT count() FROM spans").scalar(), flush=True)
"""


def test_started_in_a_directory_that_cannot_be_written_it_loads_and_leaves_nothing_there(tmp_path: Path) -> None:
    here, data = tmp_path / "here", tmp_path / "data"
    here.mkdir()
    here.chmod(stat.S_IRUSR | stat.S_IXUSR)
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(here), str(ROOT), str(data)], env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "1\n", done.stderr
    assert not list(here.iterdir())
    assert list(data.glob("__cache__/*.proto"))
