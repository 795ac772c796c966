"""`tokenpath what-if`: reads what happened, changes it (what_if.py), and says both side by side, with the assumptions."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.errors import CheckFailed, ConfigurationError
from pipeline.reporting.figures import money_text
from pipeline.reporting.report import ReportQuery, parameters_of
from pipeline.reporting.shown import UNKNOWN, blank_table, money
from pipeline.reporting.what_if import (
    ASSUMPTIONS,
    Fleet,
    ReplicaUse,
    with_gpu,
    with_hit_ratio,
    with_perfect_affinity,
    without_idle,
)
from pipeline.statements import statement
from pipeline.store.client import Store
from schemas.catalog import Precision, gpus
from schemas.usage import ATOMS_PER_UNIT

SQL = "pipeline.reporting.what_if_sql"
SCHEMA = "tokenpath.what-if/1"
SECOND_NS = 10**9


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is otherwise. All that is given holds together. `headroom`: of a replica's time that stays free when idle ones are removed."""

    perfect_affinity: bool = False
    hit_ratio: Decimal | None = None
    gpu: str | None = None
    precision: Precision | None = None
    usd_per_gpu_hour: Decimal | None = None
    ttft_ms: Decimal | None = None
    tpot_ms: Decimal | None = None
    e2e_ms: Decimal | None = None
    remove_idle: bool = False
    headroom: Decimal = Decimal("0.2")

    def __post_init__(self) -> None:
        if all(getattr(self, one.name) in (None, False) for one in fields(self) if one.name != "headroom"):
            raise ConfigurationError(
                "say what would be otherwise: --affinity, --hit-ratio, --gpu, --precision, --ttft-ms … or --without-idle"
            )
        if self.perfect_affinity and self.hit_ratio is not None:
            raise ConfigurationError("--affinity and --hit-ratio both say how much is cached; give one")
        if self.hit_ratio is not None and not 0 <= self.hit_ratio <= 1:
            raise ConfigurationError(f"--hit-ratio {self.hit_ratio} is not between 0 and 1")
        if not 0 <= self.headroom < 1:
            raise ConfigurationError(f"--headroom {self.headroom} is not between 0 and 1")
        if self.gpu is not None and self.gpu not in gpus():
            raise ConfigurationError(f"--gpu {self.gpu} is not in the catalogue; there are {', '.join(sorted(gpus()))}")
        if self.usd_per_gpu_hour is not None and self.usd_per_gpu_hour < 0:
            raise ConfigurationError(f"--usd-per-gpu-hour {self.usd_per_gpu_hour} is negative")
        if self.gpu is not None and self.usd_per_gpu_hour is None:
            raise ConfigurationError("--gpu needs --usd-per-gpu-hour: what one of them costs")

    @property
    def objectives_ns(self) -> dict[str, int]:
        limits = {"ttft_ns": self.ttft_ms, "tpot_ns": self.tpot_ms, "e2e_ns": self.e2e_ms}
        return {name: -1 if limit is None else int(limit * 1_000_000) for name, limit in limits.items()}


@dataclass(frozen=True, slots=True)
class State:
    """GPU time and money of the fleet, and what came out of it."""

    fleet: Fleet
    useful_tokens: int
    in_time: int

    @property
    def atoms(self) -> int:
        """Of the fleet as it stands; of more replicas of the same price where its work does not fit."""
        fleet = self.fleet
        if fleet.capacity_ns and fleet.busy_ns > fleet.capacity_ns:
            return int(Fraction(fleet.atoms * fleet.busy_ns, fleet.capacity_ns))
        return fleet.atoms

    def atoms_at(self, utilisation: Fraction) -> int | None:
        """If the fleet were as large as makes it so busy: what a fleet that follows its load would cost."""
        fleet = self.fleet
        return int(Fraction(fleet.atoms, fleet.capacity_ns) * fleet.busy_ns / utilisation) if fleet.capacity_ns and utilisation else None


@dataclass(frozen=True, slots=True)
class Answer:
    query: ReportQuery
    answers: int
    told_ratio: float | None  # attempts whose router told its hits
    now: State
    then: State
    replicas: Mapping[str, tuple[int, int]]  # model -> (kept, held)
    assumptions: tuple[str, ...]

    @property
    def utilisation(self) -> Fraction:
        fleet = self.now.fleet
        return Fraction(fleet.busy_ns, fleet.capacity_ns) if fleet.capacity_ns else Fraction(0)


def answer(store: Store, query: ReportQuery, scenario: Scenario) -> Answer:
    """Raises CheckFailed where the range has no attributed replica."""
    parameters = {name: value for name, value in parameters_of(query).items() if name in ("from", "to", "as_of")}
    rows = store.query(statement(SQL, "replicas"), parameters).dicts()
    if not rows:
        raise CheckFailed("no replica of the inventory has an attributed window in the range")
    models = {row["replica"]: row["model"] for row in rows}
    peaks = store.query(statement(SQL, "peaks"), {**parameters, "replicas": list(models), "models": list(models.values())}).dicts()
    now = Fleet(
        tuple(ReplicaUse(**{name: row[name] for name in ReplicaUse.__dataclass_fields__}) for row in rows),
        {row["model"]: Fraction(row["busy_ns"], row["window_ns"]) for row in peaks},
    )
    verdicts = store.query(statement(SQL, "objectives"), {**parameters, **scenario.objectives_ns}).dicts()[0]
    then, replicas = changed(now, scenario)
    attempts = sum(row["attempts"] for row in rows)
    return Answer(
        query,
        answers=verdicts["answers"],
        told_ratio=sum(row["told"] for row in rows) / attempts if attempts else None,
        now=State(now, verdicts["tokens_now"], verdicts["useful_now"]),
        then=State(then, verdicts["tokens_then"], verdicts["useful_then"]),
        replicas=replicas,
        assumptions=tuple(ASSUMPTIONS[name] for name in _touched(scenario)),
    )


def changed(fleet: Fleet, scenario: Scenario) -> tuple[Fleet, Mapping[str, tuple[int, int]]]:
    """The fleet under the scenario: tokens first, then machines, then their number."""
    if scenario.perfect_affinity:
        fleet = with_perfect_affinity(fleet)
    if scenario.hit_ratio is not None:
        fleet = with_hit_ratio(fleet, Fraction(scenario.hit_ratio))
    if scenario.gpu or scenario.precision or scenario.usd_per_gpu_hour is not None:
        price = None if scenario.usd_per_gpu_hour is None else int(scenario.usd_per_gpu_hour * ATOMS_PER_UNIT)
        fleet = with_gpu(fleet, dict(gpus()), gpus()[scenario.gpu] if scenario.gpu else None, scenario.precision, price)
    return without_idle(fleet, Fraction(scenario.headroom)) if scenario.remove_idle else (fleet, {})


def _touched(scenario: Scenario) -> list[str]:
    told = {
        "always": True,
        "tokens": scenario.perfect_affinity or scenario.hit_ratio is not None,
        "affinity": scenario.perfect_affinity,
        "gpu": scenario.gpu is not None or scenario.precision is not None,
        "fleet": scenario.remove_idle,
        "slo": any(limit >= 0 for limit in scenario.objectives_ns.values()),
    }
    return [name for name, holds in told.items() if holds]


Figure = Callable[[State], str]


def figures(found: Answer) -> list[tuple[str, Figure]]:
    """Name and value of each line, as text; money exact, unknown as a dash."""

    def per_million(atoms: int | None, tokens: int) -> str:
        return money(Decimal(atoms) / ATOMS_PER_UNIT * 1_000_000 / tokens, 4) if atoms is not None and tokens else UNKNOWN

    def amount(atoms: int | None) -> str:
        return UNKNOWN if atoms is None else money(Decimal(atoms) / ATOMS_PER_UNIT, 2)

    return [
        ("input tokens from the cache", lambda s: _percent(s.fleet.cached_tokens, s.fleet.input_tokens)),
        ("busy GPU time, replica-seconds", lambda s: f"{s.fleet.busy_ns / SECOND_NS:,.1f}"),
        ("GPU time idle", lambda s: _percent(max(0, s.fleet.capacity_ns - s.fleet.busy_ns), s.fleet.capacity_ns)),
        ("replicas", lambda s: str(len(s.fleet.replicas))),
        ("answers in time", lambda s: _percent(s.in_time, found.answers)),
        ("useful tokens", lambda s: f"{s.useful_tokens:,}"),
        ("cost of the fleet", lambda s: amount(s.atoms)),
        ("  per 1M useful tokens", lambda s: per_million(s.atoms, s.useful_tokens)),
        ("cost of a fleet as busy as now", lambda s: amount(s.atoms_at(found.utilisation))),
        ("  per 1M useful tokens", lambda s: per_million(s.atoms_at(found.utilisation), s.useful_tokens)),
    ]


def to_json(found: Answer) -> str:
    """`tokenpath.what-if/1`. Money is text, times are integer ns."""

    def state(one: State) -> dict[str, Any]:
        as_busy = one.atoms_at(found.utilisation)
        return {
            "input_tokens": one.fleet.input_tokens,
            "cached_tokens": one.fleet.cached_tokens,
            "busy_ns": one.fleet.busy_ns,
            "capacity_ns": one.fleet.capacity_ns,
            "replicas": len(one.fleet.replicas),
            "answers_in_time": one.in_time,
            "useful_tokens": one.useful_tokens,
            "cost": money_text(one.atoms),
            "cost_as_busy_as_now": None if as_busy is None else money_text(as_busy),
        }

    document = {
        "schema": SCHEMA,
        "from": found.query.from_at.isoformat(),
        "to": found.query.to_at.isoformat(),
        "answers": found.answers,
        "attempts_with_told_hits_ratio": found.told_ratio,
        "now": state(found.now),
        "then": state(found.then),
        "replicas_kept": {model: {"kept": kept, "held": held} for model, (kept, held) in found.replicas.items()},
        "assumptions": list(found.assumptions),
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def render(found: Answer, console: Console) -> None:
    table = blank_table(f"What if, {found.query.from_at:%Y-%m-%d %H:%M} to {found.query.to_at:%Y-%m-%d %H:%M} UTC")
    table.add_column("")
    for name in ("now", "then"):
        table.add_column(name, justify="right")
    for name, figure in figures(found):
        table.add_row(name, figure(found.now), figure(found.then))
    console.print(table)
    for model, (kept, held) in found.replicas.items():
        console.print(Text(f"{model}: {kept} of {held} replicas are needed"))
    if found.told_ratio is not None and found.told_ratio < 1:
        console.print(Text(f"{found.told_ratio:.0%} of the attempts tell what their router expected to find cached."))
    console.print(Text("Assumptions", style="bold"))
    for line in found.assumptions:
        console.print(Text(f"- {line}"))


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else UNKNOWN
