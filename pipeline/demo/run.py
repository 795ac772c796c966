"""`tokenpath demo`: starts everything, sends a modelled cluster's telemetry through it, and checks every result against the truth."""

import json
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from urllib.request import urlopen

from rich.table import Table as RichTable

from pipeline.attribution import on_request
from pipeline.billing.focus import export_focus
from pipeline.command import Command, located
from pipeline.demo.check import TOLERANCE, Comparison, compare, read_truth
from pipeline.errors import CheckFailed, ConfigurationError
from pipeline.progress import progress
from pipeline.reporting.files import to_csv, to_json
from pipeline.reporting.report import ReportQuery, build_report
from pipeline.reporting.table import render
from pipeline.serving.instance import Endpoint, store_for_command
from pipeline.serving.processes import Receive, lag
from pipeline.serving.up import Pages, run_up
from pipeline.statements import statement
from schemas.counters import Counters
from schemas.report import Report
from schemas.settings import Settings, split_address

MARKER = "tokenpath-demo"  # a directory with this file is ours to empty
STARTED_BEFORE = timedelta(hours=2)
LOAD_SECONDS_MAX = 120
ATOMS_PER_USD = 10**12
NS_PER_HOUR = 3_600 * 10**9

Send = Callable[[tuple[str, ...], int, Path, Callable[[int, int], None]], int]  # returns the end of the last span, unix ns


@dataclass
class Demo:
    """`send(targets, start_ns, truth, progress)` replays the cluster; `receive` and `pages` are what `up` needs."""

    command: Command
    out: Path
    here: Path  # what paths are shown relative to; the embedded engine changes the working directory
    send: Send
    receive: Receive
    counters: Counters
    pages: Pages
    stay: bool
    stop: threading.Event
    started: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    def run(self) -> None:
        """Raises CheckFailed when a figure disagrees with the truth."""
        began = time.monotonic()
        empty(self.out)
        command = self._placed()
        server = threading.Thread(target=self._up, args=(command,), name="up")
        server.start()
        try:
            self._wait(lambda: self.started.is_set(), 60, "the services did not start")
            self._main_job(command, began)
            if self.stay and not self.stop.is_set():
                command.out.print(f"The page stays at http://{command.settings.serve.http}/ until Ctrl-C.")
                self._wait(self.stop.is_set, None, "")
        finally:
            self.stop.set()
            server.join()
        if self.error:
            raise self.error

    def _placed(self) -> Command:
        """The same command with its data below `out` and with addresses that are free."""
        settings = _free_addresses(self.command.settings)
        defaults = settings.model_copy(update={"store": type(settings.store)(), "log": type(settings.log)()})
        data = self.out / "data"
        return Command(self.command.configuration, located(defaults, data), data, self.command.as_json, self.command.out, self.command.err)

    def _up(self, command: Command) -> None:
        def ready(_: Endpoint) -> None:
            self.started.set()

        try:
            run_up(command, self.receive, self.counters, self.pages, self.stop, ready)
        except BaseException as error:  # raised again by run()
            self.error = error
        finally:
            self.started.set()

    def _wait(self, condition: Callable[[], bool], seconds: float | None, message: str) -> None:
        deadline = None if seconds is None else time.monotonic() + seconds
        while not condition():
            if self.error:
                raise self.error
            if deadline is not None and time.monotonic() > deadline:
                raise CheckFailed(f"{message} within {seconds:.0f} s")
            time.sleep(0.05)

    def _main_job(self, command: Command, began: float) -> None:
        if self.error:
            raise self.error
        receive = command.settings.receive
        start = (datetime.now(UTC) - STARTED_BEFORE).replace(minute=0, second=0, microsecond=0)
        self._say(command, f"Sending a modelled cluster's telemetry: OTLP/gRPC to {receive.grpc}, OTLP/HTTP to {receive.http}")
        targets = (f"grpc://{receive.grpc}", f"http://{receive.http}")
        with progress(command.err, "requests") as step:
            last_ns = self.send(targets, int(start.timestamp()) * 10**9, self.out / "truth", step)
        self._wait(lambda: lag(command.settings) == 0, LOAD_SECONDS_MAX, "the loader did not reach the end of the log")
        self._say(command, "Attributing cost and latency")
        end = next_window(last_ns, command.settings.attribution.window_seconds)
        with progress(command.err, "runs") as step:
            on_request.once(command, (start, end), True, True, step)
        with store_for_command(command.settings.store, command.data) as store:
            report = build_report(store, ReportQuery(start, end), 0)
            busy_atoms = dict(store.query(statement("pipeline.demo.sql", "busy_atoms"), {"from": start, "to": end}).rows)
            bill = self.out / f"focus-{start:%Y-%m}.csv"
            export_focus(store, f"{start:%Y-%m}", bill, provider=command.configuration.prices.provider)
        (self.out / "report.json").write_text(to_json(report), encoding="utf-8")
        (self.out / "report.csv").write_text(to_csv(report), encoding="utf-8", newline="")
        pages = check_pages(f"http://{command.settings.serve.http}", start, end)
        truth = read_truth(self.out / "truth", atoms_per_ns(command))
        lines = compare(truth, json.loads(to_json(report)), busy_atoms)
        self._show(command, report, lines, bill, pages, time.monotonic() - began)
        wrong = [f"{line.tenant} {line.what}" for line in lines if not line.agrees]
        if report.conservation.difference_atoms != "0":
            wrong.append(f"pools and ledger by {report.conservation.difference_atoms} atoms")
        if wrong:
            raise CheckFailed(f"the figures disagree with the truth: {'; '.join(wrong)}")

    def _show(self, command: Command, report: Report, lines: list[Comparison], bill: Path, pages: int, seconds: float) -> None:
        if command.as_json:
            command.print_json(
                {
                    "agrees": all(line.agrees for line in lines),
                    "lines": [{"tenant": c.tenant, "what": c.what, "agrees": c.agrees, "deviation": c.deviation} for c in lines],
                    "panels": pages,
                    "seconds": round(seconds, 1),
                }
            )
            return
        out = command.out
        render(report, out)
        out.print(comparison_table(lines))
        if all(line.agrees for line in lines):
            exact = sum(line.exact for line in lines)
            out.print(f"{exact} counts equal the truth; each tenant's GPU cost is within {float(TOLERANCE):.0%} of the step-level truth.")
        out.print(f"{pages} panels of the page answered without an error.")
        files = [self._shown(path) for path in (self.out / "report.json", self.out / "report.csv", bill)]
        out.print(f"Report: {files[0]}, {files[1]}. Bill (FOCUS 1.2): {files[2]}.")
        out.print(f"Done in {seconds:.0f} s.")

    @staticmethod
    def _say(command: Command, text: str) -> None:
        if not command.as_json:
            command.err.print(text, style="bold")

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self.here)) if path.is_relative_to(self.here) else str(path)


def empty(out: Path) -> None:
    """An empty directory with our marker. Raises ConfigurationError rather than touch somebody else's files."""
    if out.exists() and any(out.iterdir()):
        if not (out / MARKER).exists():
            raise ConfigurationError(f"{out} is not empty and no earlier demo made it: choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARKER).write_text("made by 'tokenpath demo', which empties this directory\n", encoding="utf-8")


def next_window(at_ns: int, window_seconds: int) -> datetime:
    """The end of the window that holds `at_ns`."""
    return datetime.fromtimestamp((at_ns // 10**9 // window_seconds + 1) * window_seconds, UTC)


def atoms_per_ns(command: Command) -> Mapping[str, Fraction]:
    """What each replica of the inventory costs, at the price that is in force today."""
    now_ns = time.time_ns()
    tables = command.configuration.tables
    prices = {row["gpu"]: int(row["atoms_per_gpu_hour"]) for row in tables["gpu_prices"] if row["from_ns"] <= now_ns < row["to_ns"]}
    return {
        row["replica"]: Fraction(prices[row["gpu"]] * row["gpus"], NS_PER_HOUR)
        for row in tables["inventory"]
        if row["from_ns"] <= now_ns < row["to_ns"] and row["gpu"] in prices
    }


def check_pages(address: str, start: datetime, end: datetime) -> int:
    """Fetches every page that the first one links to, and its panels, as a browser does; returns how many panels answered. Raises
    CheckFailed."""
    span = f"from={int(start.timestamp())}&to={int(end.timestamp())}"
    answered = 0
    for path in dict.fromkeys(re.findall(r'href="(/d/[^"]+)"', _fetched(address))):
        page = _fetched(f"{address}{path}?{span}")
        for panel in range(1, page.count('data-panel="') + 1):
            with urlopen(f"{address}{path}/panels/{panel}.json?{span}", timeout=30) as answer:
                content = json.load(answer)
            if content.get("kind") not in ("stat", "table", "figure"):
                raise CheckFailed(f"panel {panel} of {address}{path} shows nothing: {content}")
            answered += 1
    return answered


def _fetched(address: str) -> str:
    with urlopen(address, timeout=30) as answer:
        return str(answer.read().decode())


def comparison_table(lines: list[Comparison]) -> RichTable:
    """Truth against what the pipeline says, a line per tenant and figure."""
    table = RichTable(title="Checked against the modelled cluster's truth", title_justify="left", box=None, header_style="bold")
    for name in ("tenant", "what", "truth", "found", "deviation", ""):
        table.add_column(name, justify="left" if name in ("tenant", "what", "") else "right")
    for line in lines:
        shown = [f"{int(v):,}" if line.exact else f"${float(v) / ATOMS_PER_USD:,.4f}" for v in (line.truth, line.found)]
        table.add_row(line.tenant, line.what, *shown, "" if line.exact else f"{line.deviation:+.1%}", "ok" if line.agrees else "DIFFERS")
    return table


def _free_addresses(settings: Settings) -> Settings:
    """Each address as configured, or a free port where another program has it."""
    receive = settings.receive.model_copy(update={name: _free(getattr(settings.receive, name)) for name in ("grpc", "http")})
    serve = settings.serve.model_copy(update={name: _free(getattr(settings.serve, name)) for name in ("http", "clickhouse_http")})
    return settings.model_copy(update={"receive": receive, "serve": serve})


def _free(address: str) -> str:
    host, port = split_address(address)
    for wanted in (port, 0):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, wanted))
            except OSError:
                continue
            return f"{host}:{probe.getsockname()[1]}"
    raise ConfigurationError(f"no port of {host} is free")
