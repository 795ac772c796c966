"""What the bench measures: its parts, the processes of each, and the lines of the result with their budgets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Figures = Mapping[str, float]  # "<measurement>.<figure>"
Unit = Literal["per_second", "ratio", "bytes", "megabytes", "seconds", "milliseconds", "count"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One process: `module.measure(**arguments)`. `smallest`: what makes it quick enough for a test that it still works."""

    name: str
    module: str
    arguments: Mapping[str, Any]
    smallest: Mapping[str, Any]
    timeout_s: float = 180.0


@dataclass(frozen=True, slots=True)
class Line:
    """One figure for people. `at_least` or `at_most` is its budget; without one it is only shown."""

    what: str
    value: Callable[[Figures], float | None]
    unit: Unit
    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float | None) -> bool | None:
        """None: nothing was promised or nothing measured."""
        if value is None or (self.at_least is None and self.at_most is None):
            return None
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    title: str
    measurements: tuple[Measurement, ...]
    lines: tuple[Line, ...]
    by_default: bool = True


def figure(name: str, times: float = 1.0) -> Callable[[Figures], float | None]:
    return lambda figures: figures[name] * times if name in figures else None


def growth(figures: Figures) -> float | None:
    """Seconds per attempt at the largest number of attempts over those at the smallest: 1 is linear."""
    found = sorted((n, figures[key.replace(".attempts", ".seconds")] / n) for key, n in figures.items() if key.endswith(".attempts"))
    return found[-1][1] / found[0][1] if len(found) > 1 else None


def slowest(prefix: str) -> Callable[[Figures], float | None]:
    return lambda figures: max((value for name, value in figures.items() if name.startswith(prefix)), default=None)


def median(prefix: str) -> Callable[[Figures], float | None]:
    def value(figures: Figures) -> float | None:
        found = sorted(value for name, value in figures.items() if name.startswith(prefix))
        return found[len(found) // 2] if found else None

    return value


LOADER = Part(
    "loader",
    "Loader: log to queryable rows",
    (Measurement("loader", "tests.bench.loader", {}, {"spans": 2000, "requests": 60}),),
    (
        Line("spans a second", figure("loader.rows_per_second"), "per_second", at_least=250_000),
        Line("against the bare insert of the same bytes", figure("loader.ratio"), "ratio", at_least=0.6),
        Line("spans a second from a log in memory", figure("loader.rows_per_second_memory"), "per_second"),
        Line("spans a second, bare insert", figure("loader.rows_per_second_bare"), "per_second"),
        Line("CPU seconds for a million spans", figure("loader.cpu_us_per_span"), "seconds"),
        Line("CPU seconds for a million spans, bare insert", figure("loader.cpu_us_per_span_bare"), "seconds"),
        Line("bytes a span on disk, all attributes kept", figure("loader.bytes_per_span"), "bytes", at_most=60),
    ),
)

RECEIVER = Part(
    "receiver",
    "Receiver: OTLP/gRPC to log, 500 spans a request",
    (
        Measurement("memory", "tests.bench.receiver", {"log_url": "memory:", "seconds": 5.0}, {"seconds": 0.2}),
        Measurement("sqlite", "tests.bench.receiver", {"log_url": "sqlite:log.sqlite", "seconds": 6.0}, {"seconds": 0.2}),
    ),
    (
        Line("spans a second, receiver alone", figure("memory.spans_per_second"), "per_second", at_least=250_000),
        Line("spans a second into the SQLite log", figure("sqlite.spans_per_second"), "per_second", at_least=250_000),
        Line("spans a second of its own CPU, SQLite log", figure("sqlite.spans_per_core_second"), "per_second"),
    ),
)

WHOLE_WAY = Part(
    "whole-way",
    "Whole way in one process: gRPC in to queryable rows",
    (Measurement("whole_way", "tests.bench.whole_way", {"seconds": 12.0}, {"seconds": 0.3, "requests": 60}),),
    (
        Line("spans a second until all are queryable", figure("whole_way.spans_per_second"), "per_second", at_least=200_000),
        Line("peak memory of the process, MB", figure("whole_way.peak_bytes"), "megabytes", at_most=1e9),
        Line("spans a second accepted while sending", figure("whole_way.accepted_per_second"), "per_second"),
        Line("spans not yet queryable when sending ended", figure("whole_way.lag_spans"), "count"),
        Line("cores that the process used", figure("whole_way.process_cores"), "ratio"),
    ),
)

CARDINALITY = Part(
    "cardinality",
    "One sender with 100,000 tenant names, then as many attribute keys",
    (Measurement("cardinality", "tests.bench.cardinality", {}, {"distinct": 6_000}),),
    (
        Line("memory above usual spans, through a receiver, MB", figure("cardinality.memory_above_usual"), "megabytes", at_most=1e8),
        Line(
            "memory above usual spans, keys of a Collector's topic, MB",
            figure("cardinality.memory_above_usual_collector"),
            "megabytes",
            at_most=1e8,
        ),
        Line("different attribute keys that reached the store through a receiver", figure("cardinality.keys"), "count", at_most=5_100),
        Line("CPU seconds for a million usual spans", figure("cardinality.usual_cpu_us_per_span"), "seconds"),
        Line("CPU seconds for a million spans of many tenants", figure("cardinality.tenants_cpu_us_per_span"), "seconds"),
        Line("CPU seconds for a million spans of many keys", figure("cardinality.keys_cpu_us_per_span"), "seconds"),
    ),
)

STAGES = Part(
    "stages",
    "Own spans: collectors/stages against the bare OpenTelemetry SDK",
    (Measurement("stages", "tests.bench.stages", {}, {"rounds": 3, "spans": 10}),),
    (
        Line("ns a span above start_as_current_span", figure("stages.above_sdk"), "count", at_most=1000),
        Line("ns a span above the shortest code by hand", figure("stages.above_by_hand"), "count"),
        Line("ns a span, ours", figure("stages.ours"), "count"),
        Line("ns a span, start_as_current_span", figure("stages.sdk"), "count"),
    ),
)

FRESHNESS = Part(
    "freshness",
    "Freshness: receipt to queryable in `tokenpath up`, attribution running, 20,000 spans/s",
    (
        Measurement(
            "freshness",
            "tests.bench.freshness",
            {"spans_per_second": 20_000, "seconds": 20.0},
            {"spans_per_second": 2_000, "seconds": 0.5, "requests": 60},
        ),
    ),
    (
        Line("p99, ms", figure("freshness.p99_ms"), "milliseconds", at_most=5000),
        Line("p50, ms", figure("freshness.p50_ms"), "milliseconds"),
        Line("spans a second sent", figure("freshness.spans_per_second"), "per_second"),
        Line("peak memory of `tokenpath up`, MB", figure("freshness.peak_bytes"), "megabytes"),
    ),
)


def attribution(*attempts: int) -> Part:
    """The budget is 40 s for a million attempts; fewer must not take more an attempt."""
    names = {n: f"attempts_{n}" for n in attempts}
    lines = [
        line
        for n, name in names.items()
        for line in (
            Line(f"seconds for {n:,} attempts", figure(f"{name}.seconds"), "seconds", at_most=40 * n / 1e6),
            Line(f"peak memory for {n:,} attempts, MB", figure(f"{name}.peak_bytes"), "megabytes", at_most=4 * 2**30),
        )
    ]
    return Part(
        "attribution",
        "Attribution: one run, spans to published figures",
        tuple(Measurement(name, "tests.bench.whole_run", {"attempts": n}, {"attempts": 60}, 120 + n / 1000) for n, name in names.items()),
        (*lines, Line("seconds an attempt, most attempts against fewest", growth, "ratio", at_most=1.2)),
    )


MONEY = Part(
    "money",
    "Attribution: the split of money alone, 100,000 attempts with 11 slots each",
    (Measurement("money", "tests.bench.attribution", {"attempts": 100_000}, {"attempts": 60}),),
    (
        Line("seconds", figure("money.money_seconds"), "seconds"),
        Line("memory above the empty engine, MB", figure("money.money_peak_bytes"), "megabytes"),
    ),
    by_default=False,
)

PANELS = Part(
    "panels",
    "Panels: every dashboard query over the figures of 100 million spans, 30 days",
    (
        Measurement(
            "panels",
            "tests.bench.panels",
            {},
            {"equivalent_spans": 40_000, "days": 1, "tenants": 3, "models": 1, "stored": 1000, "tries": 1},
            timeout_s=1800.0,
        ),
    ),
    (
        Line("slowest, the dashboard's own range, ms", slowest("panels.ms/default/"), "milliseconds", at_most=300),
        Line("slowest, 30 days, ms", slowest("panels.ms/30d/"), "milliseconds", at_most=300),
        Line("median, the dashboard's own range, ms", median("panels.ms/default/"), "milliseconds"),
        Line("median, 30 days, ms", median("panels.ms/30d/"), "milliseconds"),
        Line("spans stored beside them", figure("panels.spans"), "count"),
        Line("rows of latency_windows", figure("panels.latency_windows"), "count"),
    ),
    by_default=False,
)

ATTEMPTS, ATTEMPTS_LONG = (100_000, 200_000), (100_000, 200_000, 1_000_000)


def parts(long: bool = False) -> dict[str, Part]:
    everything = (
        LOADER,
        RECEIVER,
        WHOLE_WAY,
        CARDINALITY,
        STAGES,
        FRESHNESS,
        attribution(*(ATTEMPTS_LONG if long else ATTEMPTS)),
        MONEY,
        PANELS,
    )
    return {part.name: part for part in everything}
