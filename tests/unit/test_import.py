"""The import as a job: batches, positions, rejected rows. The log is in memory, rows are read by the real collectors."""

import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.records.imported import read_records
from pipeline.errors import ConfigurationError
from pipeline.importing import job as module
from pipeline.importing.job import Import, Options
from pipeline.importing.position import Positions
from pipeline.importing.summary import NAMES_MAX, Summary
from schemas.log import LogFull
from tests.memory_log import MemoryLog
from tests.records import DYNAMO, ENVOY, LITELLM, changed

NOW_NS = 1_790_100_000_000_000_000
DAY_NS = 86_400_000_000_000


def read(stream: Any, offset: int, line: int) -> Iterator[Any]:
    return read_records(stream, offset, line, "", {}, False)


def rows(count: int, first: int = 0) -> bytes:
    return as_lines(*(changed(LITELLM, id=f"x{number}") for number in range(first, first + count)))


def as_lines(*values: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


class Directory:
    """Files to import, and the same positions for every import of them."""

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, MemoryLog()

    def write(self, name: str, content: bytes) -> Path:
        file = self.path / name
        file.write_bytes(content)
        return file

    def run(self, *files: Path, log: MemoryLog | None = None, sleeper: Callable[[float], object] = lambda _: None, **more: Any) -> Summary:
        usual = {"files": files, "principal": "platform", "marks": (), "max_age_ns": 400 * DAY_NS, "max_body_bytes": 4_194_304}
        asked = Options(**{**usual, **more})
        target = None if asked.dry_run else log or self.log
        return Import(asked, read, target, Positions(self.path / "positions"), lambda: NOW_NS, sleeper).run(lambda done, total: None)

    def traces(self) -> list[bytes]:
        """Trace ids in the log, one a record."""
        found = []
        for record in self.log.records:
            for block in ExportTraceServiceRequest.FromString(record.value).resource_spans:
                found += [span.trace_id for span in block.scope_spans[0].spans if span.name == "inference"]
        return found


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def test_records_are_in_the_log_with_their_sender(directory: Directory) -> None:
    file = directory.write("a.log", rows(3) + json.dumps(DYNAMO).encode())
    summary = directory.run(file, principal="tenant/acme")
    assert summary.records == {"litellm": 3, "dynamo": 1}
    assert (summary.tenants, summary.models) == ({"team-red": 3, "unknown": 1}, {"gpt-x": 3, "m-x": 1})
    [record] = directory.log.records
    assert record.topic == "otlp_spans"
    assert record.headers == {"principal": "tenant/acme", "ingest_key": "import", "received_ns": str(NOW_NS), "content": "otlp_proto"}
    assert len(set(directory.traces())) == 4


def test_gzip_is_known_by_its_bytes(directory: Directory) -> None:
    directory.run(directory.write("packed", gzip.compress(rows(2))), directory.write("plain.gz", rows(1, first=2)))
    assert len(set(directory.traces())) == 3


def test_what_was_imported_is_not_read_again_but_what_came_since_is(directory: Directory) -> None:
    file = directory.write("a.log", rows(2))
    directory.run(file)
    assert directory.run(file).records == {}
    with file.open("ab") as growing:
        growing.write(rows(2, first=2))
    again = directory.run(file)
    assert (again.records, again.resumed) == ({"litellm": 2}, {str(file): 3})
    assert len(directory.traces()) == 4


def test_another_file_of_the_same_name_and_other_options_begin_anew(directory: Directory) -> None:
    file = directory.write("a.log", rows(2))
    directory.run(file)
    assert directory.run(file, marks=("litellm",)).records == {"litellm": 2}
    directory.write("a.log", rows(3, first=9))
    assert directory.run(file).records == {"litellm": 3}
    directory.write("a.log", rows(1))
    assert directory.run(file).records == {"litellm": 1}


def test_from_the_beginning_appends_the_same_spans_again(directory: Directory) -> None:
    file = directory.write("a.log", rows(2))
    directory.run(file)
    assert directory.run(file, from_beginning=True).records == {"litellm": 2}
    first, second = (record.value for record in directory.log.records)
    assert first == second


@pytest.mark.parametrize("fails_at", [1, 3, 5])
def test_an_interrupted_import_goes_on_and_loses_nothing(directory: Directory, monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
    monkeypatch.setattr(module, "NOTE_BYTES", 1)  # a batch for each row

    def fail() -> None:
        if directory.log.attempts == fails_at:
            raise KeyboardInterrupt

    directory.log.before_append = fail
    content = rows(3) + b"broken\n" + rows(3, first=3)
    file = directory.write("a.log", content)
    with pytest.raises(KeyboardInterrupt):
        directory.run(file)
    directory.log.before_append = lambda: None
    directory.run(file)
    assert len(set(directory.traces())) == 6
    assert len((directory.path / "a.log.rejected.jsonl").read_text().splitlines()) == 1


def test_bad_rows_are_kept_with_their_place(directory: Directory) -> None:
    old = changed(LITELLM, startTime=1_700_000_000.0, endTime=1_700_000_001.0)
    future = changed(LITELLM, startTime=1_790_104_000.0, endTime=1_790_104_001.0)
    file = directory.write("a.log", rows(1) + b"broken\n" + as_lines(old, future) + rows(1, first=1))
    summary = directory.run(file)
    kept = [json.loads(line) for line in (directory.path / "a.log.rejected.jsonl").read_text().splitlines()]
    assert [(entry["file"], entry["line"]) for entry in kept] == [(str(file), 2), (str(file), 3), (str(file), 4)]
    assert kept[0]["row"] == "broken"
    assert kept[1]["error"].startswith("older than 400 days ([attribution] max_span_age_days)")
    assert "another clock" in kept[2]["error"]
    assert (summary.rejected, summary.too_old, summary.records) == (3, 1, {"litellm": 2})
    assert summary.first_rejected.startswith(f"{file}:2: not JSON")


def test_rejected_rows_go_where_they_are_told_and_are_not_doubled(directory: Directory) -> None:
    elsewhere = directory.path / "elsewhere"
    elsewhere.mkdir()
    file = directory.write("a.log", b"broken\n" + rows(1))
    for _ in range(2):
        directory.run(file, rejected_dir=elsewhere, from_beginning=True)
    assert len((elsewhere / "a.log.rejected.jsonl").read_text().splitlines()) == 1
    assert not (directory.path / "a.log.rejected.jsonl").exists()
    with pytest.raises(ConfigurationError, match="--rejected-dir"):
        directory.run(file, rejected_dir=directory.path / "missing", from_beginning=True)


def test_a_row_that_is_still_written_is_imported_when_it_is_whole(directory: Directory) -> None:
    content = rows(2)
    file = directory.write("a.log", content[:-30])
    assert directory.run(file).rejected == 1
    file.write_bytes(content)
    assert directory.run(file).records == {"litellm": 1}
    assert len(set(directory.traces())) == 2


def test_a_cut_gzip_file_is_told_and_read_on_later(directory: Directory) -> None:
    packed = gzip.compress(rows(400))
    file = directory.write("a.gz", packed[: len(packed) // 2])
    first = directory.run(file)
    assert "gzip file is broken or not complete" in first.first_rejected
    assert 0 < first.records["litellm"] < 400
    file.write_bytes(packed)
    second = directory.run(file)
    assert first.records["litellm"] + second.records["litellm"] == 400
    assert len(set(directory.traces())) == 400


def test_a_dry_run_changes_nothing(directory: Directory) -> None:
    file = directory.write("a.log", rows(2) + b"broken\n")
    before = sorted(directory.path.rglob("*"))
    summary = directory.run(file, dry_run=True)
    assert (summary.records, summary.rejected) == ({"litellm": 2}, 1)
    assert sorted(directory.path.rglob("*")) == before


def test_no_record_of_the_log_is_larger_than_it_takes(directory: Directory) -> None:
    size = len(next(iter(read(io.BytesIO(rows(1)), 0, 1))).spans)
    directory.run(directory.write("a.log", rows(10)), max_body_bytes=3 * size)
    assert len(directory.log.records) == 4
    assert all(len(record.value) <= 3 * size for record in directory.log.records)
    summary = directory.run(directory.write("b.log", rows(1)), max_body_bytes=size - 100)
    assert "max_body_bytes" in summary.first_rejected


def test_a_full_log_is_waited_for_and_then_told(directory: Directory) -> None:
    waited: list[float] = []

    def full() -> None:
        if len(waited) < 3:
            raise LogFull("disk")

    log = MemoryLog(full)
    assert directory.run(directory.write("a.log", rows(1)), log=log, sleeper=waited.append).records == {"litellm": 1}
    assert (waited, len(log.records)) == ([1, 2, 4], 1)

    def always() -> None:
        raise LogFull("disk")

    with pytest.raises(LogFull):
        directory.run(directory.write("b.log", rows(1)), log=MemoryLog(always))
    assert directory.run(directory.path / "b.log").records == {"litellm": 1}  # nothing was noted


def test_files_that_cannot_be_used_are_one_line(directory: Directory) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        directory.run(directory.path / "missing")
    one = directory.write("a.log", b"")
    with pytest.raises(ConfigurationError, match="two of the files"):
        directory.run(one, one)


def test_a_broken_note_is_no_obstacle(directory: Directory) -> None:
    file = directory.write("a.log", rows(1))
    directory.run(file)
    for note in (directory.path / "positions").iterdir():
        note.write_text("{")
    assert directory.run(file).records == {"litellm": 1}


def test_names_are_counted_up_to_a_most() -> None:
    summary = Summary()
    for number in range(NAMES_MAX + 50):
        summary.take("envoy", NOW_NS + number, f"t{number}", "m")
    assert len(summary.tenants) == NAMES_MAX + 1
    assert summary.tenants["(others)"] == 50
    assert (summary.from_ns, summary.to_ns) == (NOW_NS, NOW_NS + NAMES_MAX + 49)


def test_rows_of_no_call_are_counted_by_what_they_are(directory: Directory) -> None:
    payload = changed(DYNAMO, event_type="request_payload")
    summary = directory.run(directory.write("a.json", json.dumps([payload, payload, ENVOY]).encode()))
    assert (summary.left_out, summary.records, summary.rejected) == ({"request_payload": 2}, {"envoy": 1}, 0)
