"""What the SQLite log promises beyond the common suite: kills, a full disk, other processes, a file that stays small."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from pipeline.log import open_append_log, open_read_log, sqlite_file, sqlite_writer
from pipeline.log.sqlite import SqliteAppendLog, SqliteReadLog
from pipeline.log.sqlite_writer import Append, SqliteWriter, Waiting, release, share
from schemas.log import LogFull, LogUnavailable, Record, TopicPartition
from schemas.settings import LogSettings

TOPIC = "otlp_spans"
HERE = TopicPartition(TOPIC, 0)
BODY = bytes(48_000)
ALL = 1 << 30

# Four threads append their own numbers; each acknowledged one is told through the pipe, whole or not at all.
APPENDING_CHILD = """
import os, sys, threading
from pathlib import Path
from pipeline.log.sqlite import SqliteAppendLog

log = SqliteAppendLog(Path(sys.argv[1]), 1 << 20, ["otlp_spans"])

def append_for_ever(thread):
    for number in range(1_000_000):
        name = f"{sys.argv[2]}-{thread}-{number}"
        log.append("otlp_spans", {"name": name}, name.encode() * 500)
        os.write(1, f"{name}\\n".encode())

for thread in range(4):
    threading.Thread(target=append_for_ever, args=(thread,)).start()
"""


def start(code: str, *arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [*prefix, sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def read_everything(path: Path, group: str | None = None) -> list[Record]:
    with closing(SqliteReadLog(path, [TOPIC], group)) as log:
        records: list[Record] = []
        while found := log.poll(10_000, ALL, 0.0):
            records += found
        return records


def eventually(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path, acknowledged, chance = tmp_path / "log.sqlite", set[str](), random.Random(20261130)
    for life in range(6):
        child = start(APPENDING_CHILD, str(path), str(life))
        assert child.stdout is not None
        for _ in range(chance.randrange(1, 400)):
            acknowledged.add(child.stdout.readline().strip())
        child.send_signal(signal.SIGKILL)
        acknowledged.update(line.strip() for line in child.stdout if line.endswith("\n"))
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL
    records = read_everything(path)
    names = [record.headers["name"] for record in records]
    assert len(acknowledged) > 100
    assert acknowledged <= set(names)
    assert len(names) == len(set(names))
    assert [record.offset for record in records] == list(range(len(records)))
    assert all(record.value == record.headers["name"].encode() * 500 for record in records)


def test_writing_is_synchronised_with_the_disk(tmp_path: Path) -> None:
    with closing(sqlite_file.connect(tmp_path / "log.sqlite")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_full_log_refuses_appends_and_takes_them_again_when_the_loader_has_committed(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with (
        closing(SqliteAppendLog(path, 1 << 20, [TOPIC], keep_records=1, max_file_bytes=4_000_000)) as append_log,
        closing(SqliteReadLog(path, [TOPIC], "loader")) as read_log,
    ):
        with pytest.raises(LogFull, match="no space left"):
            for _ in range(200):
                append_log.append(TOPIC, {}, BODY)
        stored = read_log.end_offsets()[HERE]
        assert 40 < stored < 90
        assert len(read_log.poll(1_000, ALL, 0.0)) == stored
        read_log.commit({HERE: stored})
        read_log.commit({HERE: stored})  # returns after what followed the first: the trimming
        append_log.append(TOPIC, {"after": "full"}, BODY)
        (record,) = read_log.poll(10, ALL, 0.0)
        assert (record.offset, record.headers) == (stored, {"after": "full"})


def test_a_commit_of_offsets_is_stored_though_appends_beside_it_find_no_space(tmp_path: Path) -> None:
    connection = sqlite_file.connect(tmp_path / "log.sqlite", max_file_bytes=1_000_000)
    large = [sqlite_writer.Waiting(Append(TOPIC, "{}", BODY), 0) for _ in range(40)]
    commit = sqlite_writer.Waiting(sqlite_writer.CommitOffsets("loader", {TOPIC: 7}), 0)
    with closing(connection):
        appended = sqlite_writer.write_batch(connection, [*large, commit])
        assert connection.execute('SELECT "offset" FROM commits').fetchall() == [(7,)]
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (appended,)
    assert 0 < appended < 40
    assert commit.error is None
    assert [waiting.error is None for waiting in large].count(True) == appended


FULL_DISK_CHILD = """
import shutil, subprocess, sys
from pathlib import Path
from pipeline.log.sqlite import SqliteAppendLog
from schemas.log import LogFull

disk = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)], check=True)
ballast = disk / "ballast"
ballast.write_bytes(bytes(3_000_000))
log = SqliteAppendLog(disk / "log.sqlite", 1 << 20, ["otlp_spans"])
stored = 0
try:
    while stored < 1000:
        log.append("otlp_spans", {}, bytes(48_000))
        stored += 1
except LogFull as error:
    print("full", flush=True)
ballast.unlink()
log.append("otlp_spans", {}, b"after")
log.close()
from pipeline.log.sqlite import SqliteReadLog
records = SqliteReadLog(disk / "log.sqlite", ["otlp_spans"], None).poll(10_000, 1 << 30, 0.0)
print(len(records) == stored + 1, records[-1].value, flush=True)
"""


def test_a_full_disk_refuses_appends_until_there_is_space_again(tmp_path: Path) -> None:
    namespace = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--mount")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run([*namespace, *mount], capture_output=True, check=False).returncode:
        pytest.skip("a small disk of its own needs the right to mount one")
    child = start(FULL_DISK_CHILD, str(tmp_path), prefix=namespace)
    output, _ = child.communicate(timeout=60)
    assert output == "full\nTrue b'after'\n"


def test_committed_records_are_deleted_and_offsets_go_on(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    for life in range(3):
        with (
            closing(SqliteAppendLog(path, 1 << 20, [TOPIC], keep_records=10)) as append_log,
            closing(SqliteReadLog(path, [TOPIC], "loader")) as read_log,
        ):
            for _ in range(300):
                append_log.append(TOPIC, {}, b"x")
            read_log.commit({HERE: 300 * (life + 1)})
            eventually(lambda: len(read_everything(path)) == 10, "committed records are still there")
            assert read_log.end_offsets() == {HERE: 300 * (life + 1)}
    assert [record.offset for record in read_everything(path)] == list(range(890, 900))


def test_offsets_go_on_though_nothing_is_to_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with (
        closing(SqliteAppendLog(path, 1 << 20, [TOPIC], keep_records=0)) as append_log,
        closing(SqliteReadLog(path, [TOPIC], "loader")) as read_log,
    ):
        for _ in range(5):
            append_log.append(TOPIC, {}, b"x")
        read_log.commit({HERE: 5})
        read_log.commit({HERE: 5})  # returns after what followed the first: the trimming
        assert read_log.end_offsets() == {HERE: 5}
        append_log.append(TOPIC, {}, b"sixth")
        read_log.rewind()
        assert [(record.offset, record.value) for record in read_log.poll(10, ALL, 0.0)] == [(5, b"sixth")]


def test_the_file_stops_growing_when_the_loader_keeps_up(tmp_path: Path) -> None:
    path, sizes = tmp_path / "log.sqlite", []
    with (
        closing(SqliteAppendLog(path, 1 << 20, [TOPIC], keep_records=10)) as append_log,
        closing(SqliteReadLog(path, [TOPIC], "loader")) as read_log,
    ):
        for number in range(600):
            append_log.append(TOPIC, {}, BODY)
            if number % 10 == 9:
                read_log.commit({HERE: number + 1})
            if number % 200 == 199:
                sizes.append(path.stat().st_size)
    assert sizes[-1] <= sizes[0] < 300 * len(BODY)


def test_the_slowest_group_keeps_what_it_has_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with (
        closing(SqliteAppendLog(path, 1 << 20, [TOPIC], keep_records=1)) as append_log,
        closing(SqliteReadLog(path, [TOPIC], "quick")) as quick,
        closing(SqliteReadLog(path, [TOPIC], "slow")) as slow,
    ):
        for _ in range(100):
            append_log.append(TOPIC, {}, b"x")
        slow.commit({HERE: 30})
        quick.commit({HERE: 100})
        eventually(lambda: len(read_everything(path)) == 71, "the wrong records were deleted")
        slow.rewind()
        assert [record.offset for record in slow.poll(1_000, ALL, 0.0)] == list(range(30, 100))


def test_a_full_topic_does_not_starve_another(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with (
        closing(SqliteAppendLog(path, 1 << 20, [TOPIC, "otlp_metrics"])) as append_log,
        closing(SqliteReadLog(path, [TOPIC, "otlp_metrics"], "loader")) as read_log,
    ):
        for _ in range(50):
            append_log.append(TOPIC, {}, b"x")
        append_log.append("otlp_metrics", {}, b"x")
        topics = [read_log.poll(10, ALL, 0.0)[0].topic for _ in range(2)]
        assert topics == [TOPIC, "otlp_metrics"]


def test_appends_of_another_process_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with closing(SqliteReadLog(path, [TOPIC], "loader")) as read_log:
        child = start(APPENDING_CHILD, str(path), "other")
        try:
            records = read_log.poll(10, ALL, 30.0)
        finally:
            child.kill()
            child.communicate()
        assert records[0].headers["name"].startswith("other-")


def test_two_processes_append_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    children = [start(APPENDING_CHILD, str(path), str(number)) for number in range(2)]
    told = []
    for child in children:
        assert child.stdout is not None
        told += [child.stdout.readline().strip() for _ in range(50)]
    for child in children:
        child.kill()
        child.communicate()
    records = read_everything(path)
    assert set(told) <= {record.headers["name"] for record in records}
    assert [record.offset for record in records] == list(range(len(records)))


def test_a_file_that_another_process_holds_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.1)
    path = tmp_path / "log.sqlite"
    with closing(SqliteAppendLog(path, 1 << 20, [TOPIC])) as log, closing(sqlite3.connect(path, isolation_level=None)) as other:
        log.append(TOPIC, {}, b"x")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogUnavailable, match="another process has held the lock"):
            log.append(TOPIC, {}, b"x")
        other.execute("ROLLBACK")
        log.append(TOPIC, {}, b"y")
    assert [record.value for record in read_everything(path)] == [b"x", b"y"]


def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "log.sqlite").write_bytes(b"these are not the bytes of a database\n" * 100)
    with pytest.raises(LogUnavailable, match="damaged or is no log"):
        SqliteAppendLog(tmp_path / "log.sqlite", 1 << 20, [TOPIC])


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "app.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE users (name TEXT)")
    with pytest.raises(ConfigurationError, match="another program"):
        open_append_log(LogSettings(url=f"sqlite:{path}"), 1 << 20, [TOPIC])
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("users",)]


def test_a_log_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    SqliteAppendLog(path, 1 << 20, [TOPIC]).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 2")
    with pytest.raises(ConfigurationError, match="log format 2"):
        open_read_log(LogSettings(url=f"sqlite:{path}"), [TOPIC], "loader")


def test_a_directory_in_the_place_of_the_file_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(LogUnavailable, match=str(tmp_path)):
        open_append_log(LogSettings(url=f"sqlite:{tmp_path}"), 1 << 20, [TOPIC])


def test_what_waits_is_bounded_and_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, go, write = threading.Event(), threading.Event(), sqlite_writer.write_batch

    def stand(connection: sqlite3.Connection, batch: Sequence[Waiting]) -> int:
        taken.set()
        assert go.wait(30)
        return write(connection, batch)

    monkeypatch.setattr(sqlite_writer, "WAITING_BYTES_MAX", 100_000)
    monkeypatch.setattr(sqlite_writer, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(sqlite_writer, "write_batch", stand)
    path = tmp_path / "log.sqlite"
    with closing(SqliteAppendLog(path, 1 << 20, [TOPIC])) as log:
        writer = share(path, 1, None)
        threads = [threading.Thread(target=log.append, args=(TOPIC, {}, BODY)) for _ in range(3)]
        threads[0].start()
        assert taken.wait(30)
        for number, thread in enumerate(threads[1:], 1):
            thread.start()
            eventually(lambda number=number: len(writer._queue) == number, "the others do not wait")  # type: ignore[misc]
        with pytest.raises(LogFull, match="wait to be written"):
            log.append(TOPIC, {}, BODY)
        go.set()
        for thread in threads:
            thread.join()
        release(writer)
    assert len(read_everything(path)) == 3


def test_threads_that_wait_hear_of_a_failure_that_nobody_foresaw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: sqlite3.Connection, batch: object) -> int:
        raise AssertionError("a bug")

    with closing(SqliteAppendLog(tmp_path / "log.sqlite", 1 << 20, [TOPIC])) as log:
        with monkeypatch.context() as patched:
            patched.setattr(sqlite_writer, "write_batch", fail)
            with pytest.raises(AssertionError, match="a bug"):
                log.append(TOPIC, {}, b"x")
        log.append(TOPIC, {}, b"y")


def test_one_writer_serves_all_handles_of_a_process_and_ends_with_the_last(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    first, second = SqliteAppendLog(path, 1 << 20, [TOPIC]), SqliteAppendLog(path, 1 << 20, [TOPIC])
    first.append(TOPIC, {}, b"x")
    second.append(TOPIC, {}, b"y")
    assert isinstance(first._writer, SqliteWriter)
    assert first._writer is second._writer
    first.close()
    second.append(TOPIC, {}, b"z")
    writer = second._writer
    second.close()
    assert writer._thread is not None
    assert not writer._thread.is_alive()
    assert not path.with_name("log.sqlite-wal").exists()
