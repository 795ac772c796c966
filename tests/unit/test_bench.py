"""The bench still runs, and says what it should. Figures of these tiny runs mean nothing."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from rich.console import Console

from tests.bench import alone, parts, table, traffic
from tests.bench.__main__ import main
from tests.bench.alone import MeasurementFailed, in_own_process
from tests.bench.freshness import ages_ms, nearest_rank
from tests.otlp_bodies import trace_request

ROOT = alone.ROOT
EVERY = {(m.module, json.dumps({**m.arguments, **m.smallest})): m for part in parts.parts().values() for m in part.measurements}


class Asked(dict[str, float]):
    """Figures that remember which were looked for."""

    names: set[str]

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)


@pytest.mark.slow
@pytest.mark.parametrize("measurement", EVERY.values(), ids=lambda m: m.name)
def test_every_measurement_runs_in_a_process_of_its_own_and_has_the_figures_that_are_shown(measurement: parts.Measurement) -> None:
    found = in_own_process(measurement.module, {**measurement.arguments, **measurement.smallest}, 120)
    assert all(isinstance(value, int | float) and value >= 0 for value in found.values())
    figures = Asked({f"{measurement.name}.{name}": value for name, value in found.items()})
    part = next(part for part in parts.parts().values() if measurement.name in {m.name for m in part.measurements})
    shown = 0
    for line in part.lines:
        figures.names = set()
        value = line.value(figures)
        assert value is not None or not any(name.startswith(f"{measurement.name}.") for name in figures.names), line.what
        shown += value is not None
    assert shown


@pytest.mark.parametrize(
    ("at_least", "at_most", "value", "met"),
    [
        (10, None, 10, True),
        (10, None, 9.9, False),
        (None, 10, 10, True),
        (None, 10, 10.1, False),
        (None, None, 5, None),
        (10, None, None, None),
    ],
)
def test_a_budget_is_met_at_its_border(at_least: float | None, at_most: float | None, value: float | None, met: bool | None) -> None:
    line = parts.Line("x", lambda figures: None, "count", at_least, at_most)
    assert line.met(value) is met


def test_growth_compares_the_time_of_an_attempt() -> None:
    figures = {"a.attempts": 100.0, "a.seconds": 10.0, "b.attempts": 200.0, "b.seconds": 30.0}
    assert parts.growth(figures) == pytest.approx(1.5)
    assert parts.growth({"a.attempts": 100.0, "a.seconds": 10.0}) is None


def test_the_age_of_a_message_ends_when_as_many_spans_are_seen() -> None:
    received = [(1_000_000, 500), (2_000_000, 500), (3_000_000, 100)]
    seen = [(1_500_000, 0), (5_000_000, 999), (9_000_000, 1100)]
    assert list(ages_ms(received, seen)) == [(4.0, 500), (7.0, 500), (6.0, 100)]


def test_nearest_rank_counts_spans_not_messages() -> None:
    ages = [(1.0, 98), (2.0, 1), (3.0, 1)]
    assert [nearest_rank(ages, permille) for permille in (500, 980, 990, 1000)] == [1.0, 1.0, 2.0, 3.0]


def test_copies_are_other_spans_of_whole_traces() -> None:
    request = trace_request(3)
    request.resource_spans[0].scope_spans[0].spans[2].trace_id = b"u" * 16
    originals = [traffic.body(request.SerializeToString()), traffic.body(trace_request(2).SerializeToString())]
    rounds = [content for _, content in itertools.islice(traffic.copies(originals), 6)]
    assert rounds[:2] == [original.content for original in originals]
    keys = [
        (span.trace_id, span.span_id)
        for content in (rounds[0], rounds[2], rounds[4])
        for span in ExportTraceServiceRequest.FromString(content).resource_spans[0].scope_spans[0].spans
    ]
    assert len(set(keys)) == 9
    assert [keys[n][0] == keys[n + 1][0] != keys[n + 2][0] for n in (0, 3, 6)] == [True, True, True]
    other_body = ExportTraceServiceRequest.FromString(rounds[3]).resource_spans[0].scope_spans[0].spans[0]
    assert other_body.trace_id == keys[3][0]


def test_the_result_shows_each_figure_beside_its_budget() -> None:
    figures = {"memory.spans_per_second": 300_000.0, "sqlite.spans_per_second": 200_000.0}
    results: list[tuple[parts.Part, parts.Figures, dict[str, str]]] = [(parts.RECEIVER, figures, {})]
    console = Console(width=120)
    with console.capture() as shown:
        console.print(table.table(results))
    lines = shown.get().splitlines()
    assert any("300,000" in line and "at least 250,000" in line and "ok" in line for line in lines)
    assert any("200,000" in line and "BELOW" in line for line in lines)
    assert any("python -m tests.bench receiver" in line for line in lines)
    assert [line["met"] for line in table.as_json(results)["parts"][0]["lines"]] == [True, False, None]


@contextmanager
def _module(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "made_up.py").write_text(text)
    monkeypatch.setattr(alone, "ROOT", f"{alone.ROOT}:{tmp_path}")
    yield "made_up"


def test_a_measurement_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        _module(tmp_path, "def measure(): raise RuntimeError('no disk')", monkeypatch) as module,
        pytest.raises(MeasurementFailed, match="no disk"),
    ):
        in_own_process(module, {}, 30)


HANGS = """
import subprocess, sys, time, pathlib
def measure(pids):
    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
    pathlib.Path(pids).write_text(str(child.pid))
    time.sleep(600)
"""


def test_a_measurement_that_hangs_is_ended_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = tmp_path / "pid"
    with _module(tmp_path, HANGS, monkeypatch) as module, pytest.raises(MeasurementFailed, match="did not end within 3 s"):
        in_own_process(module, {"pids": str(pids)}, 3)
    _wait_until_gone(int(pids.read_text()))


def test_a_measurement_does_not_outlive_a_killed_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = tmp_path / "pid"
    with _module(tmp_path, HANGS, monkeypatch) as module:
        run = f"import tests.bench.alone as a; a.ROOT = '{alone.ROOT}'; a.in_own_process('{module}', {{'pids': '{pids}'}}, 600)"
        # A temporary directory of the test: the killed process cannot delete its own.
        bench = subprocess.Popen([sys.executable, "-c", run], cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)})
        until = time.monotonic() + 60
        while not (pids.exists() and pids.read_text()):
            assert time.monotonic() < until
            time.sleep(0.05)
        bench.kill()
        bench.wait()
    _wait_until_gone(int(pids.read_text()))


def _wait_until_gone(pid: int) -> None:
    stat = Path(f"/proc/{pid}/stat")
    until = time.monotonic() + 30
    while True:
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_part_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])


def test_one_part_can_be_run_alone() -> None:
    told = subprocess.run([sys.executable, "-m", "tests.bench", "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "whole-way" in told.stdout
