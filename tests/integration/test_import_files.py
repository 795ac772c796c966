"""`tokenpath import` as a user runs it: beside a running `up`, and before one; from file to report."""

import csv
import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.processes import environment, json_of, tokenpath, up
from tests.records import DYNAMO, ENVOY, LITELLM, SGLANG, SPEND, changed

RANGE = ("--from", "2026-09-21T14:00:00Z", "--to", "2026-09-21T14:30:00Z")


def as_lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write_files(directory: Path) -> list[Path]:
    """One of each kind; the first has a bad line, the last is the table's row of a call that the first has too."""
    lines, packed, array, table = (directory / name for name in ("litellm.jsonl", "dynamo.jsonl.gz", "envoy.json", "spend.csv"))
    lines.write_bytes(as_lines(LITELLM) + b"broken\n" + as_lines(SGLANG))
    packed.write_bytes(gzip.compress(as_lines(changed(DYNAMO, request__x_request_id="other"))))
    array.write_bytes(json.dumps([ENVOY]).encode())
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(SPEND))
        writer.writeheader()
        writer.writerow({name: "" if value is None else value for name, value in SPEND.items()})
    return [lines, packed, array, table]


def test_files_become_a_report_beside_a_running_up(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    with up(tmp_path / "data", "--no-viewer") as running:
        done = tokenpath("import", *files, "--data", running.data, "--json")
        assert done.returncode == 4, done.stderr
        assert "litellm.jsonl:2: not JSON" in done.stderr
        summary = json.loads(done.stdout)
        assert summary["records"] == {"litellm": 2, "sglang": 1, "dynamo": 1, "envoy": 1}
        assert (summary["rejected"], summary["from"]) == (1, "2026-09-21T14:13:20Z")
        assert json.loads((tmp_path / "litellm.jsonl.rejected.jsonl").read_text())["line"] == 2
        # litellm and envoy are two spans each (the table's copy is the same two), sglang is one, dynamo is one and two workers
        running.wait_until_loaded(8)
        running.command("attribute", *RANGE, "--wait")
        report = running.command("report", *RANGE)
        tokens = {row["tenant"]: (row["requests"]["total"], row["tokens"]["input"], row["tokens"]["output"]) for row in report["tenants"]}
        assert tokens == {"team-red": (1, 1536, 96), "acme": (1, 1536, 96), "unknown": (2, 2048 + 4096, 64 + 128)}

        again = tokenpath("import", *files, "--data", running.data, "--from-beginning", "--json")
        assert json.loads(again.stdout)["records"] == summary["records"]
        running.wait_until_loaded(8)
        running.command("attribute", *RANGE, "--wait")
        assert running.command("report", *RANGE)["tenants"] == report["tenants"]


def test_without_up_the_records_wait_in_the_log(tmp_path: Path) -> None:
    file = write_files(tmp_path)[1]
    said = tokenpath("import", file, "--data", tmp_path / "data", "--principal", "tenant/acme", "--service", "dynamo-eu")
    assert said.returncode == 0, said.stderr
    assert "1 records imported: 1 of dynamo" in said.stdout
    assert "'tokenpath up' or 'tokenpath load'" in said.stdout
    assert json_of("load", "--once", "--data", tmp_path / "data")["spans"] == 3
    json_of("attribute", *RANGE, "--data", tmp_path / "data")
    [row] = json_of("report", *RANGE, "--data", tmp_path / "data")["tenants"]
    assert (row["tenant"], row["tokens"]["output"]) == ("acme", 128)


def test_a_sender_that_is_none_and_a_missing_file_are_one_line(tmp_path: Path) -> None:
    file = write_files(tmp_path)[1]
    for arguments, message in (
        ((file, "--principal", "acme"), "expected platform or tenant/<id>"),
        ((tmp_path / "missing",), "No such file"),
    ):
        done = tokenpath("import", *arguments, "--data", tmp_path / "data")
        assert (done.returncode, message in done.stderr, "Traceback" in done.stderr) == (2, True, False)


def test_a_killed_import_goes_on_and_doubles_nothing(tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_bytes(as_lines(*(changed(LITELLM, id=f"call-{number}") for number in range(20_000))))
    command = [sys.executable, "-c", "from pipeline.cli import main; main()", "import", str(file), "--data", str(tmp_path / "data")]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "data").glob("imports/*.json")) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    summary = json_of("import", file, "--data", tmp_path / "data")
    assert 0 < summary["records"]["litellm"] < 20_000  # it went on
    json_of("load", "--once", "--data", tmp_path / "data")
    status = json_of("status", "--data", tmp_path / "data")
    assert status["store"]["spans"] == 40_000
