"""`tokenpath tasks`: what agent runs and conversations cost as a whole, and what of it was not the answer."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from math import ceil
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.reporting.figures import money_text
from pipeline.reporting.report import ReportQuery, parameters_of
from pipeline.reporting.shown import UNKNOWN, blank_table, duration, money, plain
from pipeline.statements import statement
from pipeline.store.client import Store
from schemas.usage import ATOMS_PER_UNIT

SQL = "pipeline.reporting.tasks_sql"
SCHEMA = "tokenpath.tasks/1"
QUANTILES = (("p50", 500), ("p95", 950), ("p99", 990))


@dataclass(frozen=True, slots=True)
class Task:
    """Requests that name one task, as far as they began in the range.

    `finished`: its last request was answered; that answer is what the task was for. `atoms`, `tokens`: of all attempts. `untold`: requests
    without token counts. `between_ns`: time in which none of its requests ran (tools, the user). `resent_tokens`: context sent again;
    `reloaded_tokens`: the part of it that no cache had. `repeats`: requests of the same sizes as the one before.
    """

    tenant: str
    task: str
    requests: int
    finished: bool
    duration_ns: int
    between_ns: int
    atoms: int
    tokens: int
    untold: int
    answer_atoms: int | None
    answer_tokens: int | None
    resent_tokens: int
    reloaded_tokens: int
    repeats: int

    @property
    def token_amplification(self) -> float | None:
        """Tokens of all attempts over those of the answer. None: no answer, or counts are missing."""
        return self.tokens / self.answer_tokens if self.answer_tokens and not self.untold else None

    @property
    def cost_amplification(self) -> float | None:
        return self.atoms / self.answer_atoms if self.answer_atoms else None


@dataclass(frozen=True, slots=True)
class Tasks:
    """Dearest first."""

    query: ReportQuery
    tasks: tuple[Task, ...]

    @property
    def finished(self) -> tuple[Task, ...]:
        return tuple(task for task in self.tasks if task.finished)

    @property
    def atoms(self) -> int:
        return sum(task.atoms for task in self.tasks)

    @property
    def atoms_per_finished(self) -> int | None:
        """All money, that of tasks which never finished too, over the tasks that did."""
        return self.atoms // len(self.finished) if self.finished else None

    def quantiles(self) -> dict[str, int | None]:
        """Of the cost of finished tasks, nearest rank."""
        costs = sorted(task.atoms for task in self.finished)
        return {name: costs[ceil(permille * len(costs) / 1000) - 1] if costs else None for name, permille in QUANTILES}

    def ratio(self, part: str, whole: str) -> float | None:
        """Ratio of sums over finished tasks that tell both."""
        told = [(getattr(task, part), getattr(task, whole)) for task in self.finished if getattr(task, whole) and not task.untold]
        return sum(a for a, _ in told) / sum(b for _, b in told) if told else None


def read_tasks(store: Store, query: ReportQuery, max_attempt_seconds: int) -> Tasks:
    """Tasks of the published requests that began in the range."""
    parameters = {name: value for name, value in parameters_of(query).items() if name in ("from", "to", "as_of", "tenant")}
    rows = store.query(statement(SQL, "tasks"), {**parameters, "after_s": max_attempt_seconds}).dicts()
    return Tasks(query, tuple(Task(**{**row, "finished": bool(row["finished"])}) for row in rows))


def to_json(found: Tasks) -> str:
    """`tokenpath.tasks/1`. Money is text, times are integer ns, unknown is null."""

    def one(task: Task) -> dict[str, Any]:
        plainly = asdict(task)
        answer = plainly.pop("answer_atoms")
        plainly |= {"cost": money_text(plainly.pop("atoms")), "answer_cost": None if answer is None else money_text(answer)}
        return plainly | {"token_amplification": task.token_amplification, "cost_amplification": task.cost_amplification}

    per_finished, quantiles = found.atoms_per_finished, found.quantiles()
    document = {
        "schema": SCHEMA,
        "from": found.query.from_at.isoformat(),
        "to": found.query.to_at.isoformat(),
        "tasks": len(found.tasks),
        "finished": len(found.finished),
        "cost": money_text(found.atoms),
        "cost_per_finished_task": None if per_finished is None else money_text(per_finished),
        "cost_of_finished_tasks": {name: None if atoms is None else money_text(atoms) for name, atoms in quantiles.items()},
        "token_amplification": found.ratio("tokens", "answer_tokens"),
        "cost_amplification": found.ratio("atoms", "answer_atoms"),
        "each": [one(task) for task in found.tasks],
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def render(found: Tasks, limit: int, console: Console) -> None:
    """The dearest `limit` tasks, and all together. Names are data: no markup."""
    if not found.tasks:
        console.print(Text("No request of the range names a task (tokenpath.task.id or gen_ai.conversation.id)."))
        return
    table = blank_table(f"Tasks, {found.query.from_at:%Y-%m-%d %H:%M} to {found.query.to_at:%Y-%m-%d %H:%M} UTC, dearest first")
    for name in ("task", "tenant"):
        table.add_column(name, overflow="fold")
    for name in (
        "requests",
        "cost",
        "x cost\nof answer",
        "x tokens\nof answer",
        "context\nreloaded",
        "same\nagain",
        "took",
        "between\ncalls",
    ):
        table.add_column(name, justify="right")
    for task in found.tasks[:limit]:
        table.add_row(
            plain(task.task) + ("" if task.finished else " (unfinished)"),
            plain(task.tenant),
            str(task.requests),
            _money(task.atoms),
            _times(task.cost_amplification),
            _times(task.token_amplification),
            f"{task.reloaded_tokens:,}",
            str(task.repeats),
            duration(task.duration_ns),
            duration(task.between_ns),
        )
    console.print(table)
    if len(found.tasks) > limit:
        console.print(Text(f"{len(found.tasks) - limit} more cost less; --json has them all."))
    console.print(*(Text(line) for line in _summary(found)), sep="\n")


def _summary(found: Tasks) -> Sequence[str]:
    spread = ", ".join(f"{name} {_money(atoms)}" for name, atoms in found.quantiles().items())
    return (
        f"{len(found.finished)} of {len(found.tasks)} tasks finished; {_money(found.atoms_per_finished)} per finished task"
        f" (all money over those that finished); finished ones cost {spread}.",
        f"All attempts of finished tasks took {_times(found.ratio('tokens', 'answer_tokens'))} the tokens and"
        f" {_times(found.ratio('atoms', 'answer_atoms'))} the money of their last answers.",
    )


def _money(atoms: int | None) -> str:
    return money(None if atoms is None else Decimal(atoms) / ATOMS_PER_UNIT, 4)


def _times(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{ratio:,.1f}x"
