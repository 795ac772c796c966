"""`tokenpath explain`: why a period cost more or less than another, or than the same one as it was known before."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.errors import CheckFailed
from pipeline.reporting.change import FACTORS, Cell, Name, Period, change
from pipeline.reporting.figures import money_text
from pipeline.reporting.report import ReportQuery, month_to_date, parameters_of
from pipeline.reporting.shown import UNKNOWN, blank_table, iso, money, plain
from pipeline.statements import statement
from pipeline.store.client import Store

SQL = "pipeline.reporting.explain_sql"
SCHEMA = "tokenpath.explain/1"
NAMES_SHOWN_MAX = 10
HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two periods: what was asked for, and what is known of it."""

    query: ReportQuery
    windows: int
    provisional_windows: int
    currencies: tuple[str, ...]
    period: Period
    direct_atoms: Mapping[Name, int]


@dataclass(frozen=True, slots=True)
class Explanation:
    before: Side
    after: Side
    parts: Mapping[str, int]

    @property
    def currency(self) -> str | None:
        return next(iter(self.after.currencies or self.before.currencies), None)

    @property
    def difference(self) -> int:
        return self.after.period.atoms - self.before.period.atoms


def periods(times: Mapping[str, datetime | None], now: datetime) -> tuple[ReportQuery, ReportQuery]:
    """The two periods of a command's options (None: not given): (before, after). Raises ConfigurationError."""
    month = month_to_date(now)
    first, last = times["from"] or month[0], times["to"] or month[1]
    after = ReportQuery(first, last, as_of=times["as_of"])
    if times["against_as_of"] and not times["against_from"] and not times["against_to"]:
        return replace(after, as_of=times["against_as_of"]), after
    against_to = times["against_to"] or first
    against_from = times["against_from"] or against_to - (last - first)
    return ReportQuery(against_from, against_to, as_of=times["against_as_of"] or times["as_of"]), after


def explain(store: Store, before: ReportQuery, after: ReportQuery) -> Explanation:
    """Raises CheckFailed where a period has no attributed window, or the two hold several currencies."""
    sides = [_side(store, query) for query in (before, after)]
    for side in sides:
        if not side.windows:
            remedy = "name other periods with --from, --to, --against-from, --against-to"
            raise CheckFailed(f"no attributed window in {_range(side.query)}: nothing to compare with; {remedy}")
    currencies = sorted({currency for side in sides for currency in side.currencies})
    if len(currencies) > 1:
        raise CheckFailed(f"the periods hold amounts in {' and '.join(currencies)}, which cannot be compared")
    return Explanation(sides[0], sides[1], change(sides[0].period, sides[1].period))


def _side(store: Store, query: ReportQuery) -> Side:
    parameters = {name: value for name, value in parameters_of(query).items() if name in ("from", "to", "as_of")}
    windows = store.query(statement(SQL, "windows"), parameters).dicts()[0]
    pools = {row["pool"]: row for row in store.query(statement(SQL, "pools"), parameters).dicts()}
    cells = store.query(statement(SQL, "cells"), parameters).dicts()
    gpu = pools.pop("gpu", {"atoms": 0, "capacity_ns": 0, "idle_ns": 0})
    period = Period(
        {(row["tenant"], row["model"]): Cell(row["useful_tokens"], row["useful_ns"], row["saved_atoms"]) for row in cells if row["tenant"]},
        capacity_ns=gpu["capacity_ns"],
        idle_ns=gpu["idle_ns"],
        gpu_atoms=gpu["atoms"],
        pool_atoms={name: row["atoms"] for name, row in pools.items()},
    )
    direct = {(row["tenant"], row["model"]): row["direct_atoms"] for row in cells if row["tenant"]}
    return Side(query, windows["windows"], windows["provisional"], tuple(windows["currencies"]), period, direct)


def to_json(found: Explanation) -> str:
    """`tokenpath.explain/1`. Money is text; the parts sum to the difference."""
    document = {
        "schema": SCHEMA,
        "currency": found.currency,
        "before": _side_as_json(found.before),
        "after": _side_as_json(found.after),
        "difference": money_text(found.difference),
        "parts": {name: money_text(atoms) for name, atoms in found.parts.items()},
        "tenants": [
            {
                "tenant": tenant,
                "model": model,
                "useful_tokens": [_tokens(side, (tenant, model)) for side in (found.before, found.after)],
                "direct": [money_text(side.direct_atoms.get((tenant, model), 0)) for side in (found.before, found.after)],
                "difference": money_text(atoms),
            }
            for (tenant, model), atoms in movers(found)
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def _side_as_json(side: Side) -> dict[str, Any]:
    return {
        "from": side.query.from_at.isoformat(),
        "to": side.query.to_at.isoformat(),
        "as_of": side.query.as_of.isoformat() if side.query.as_of else None,
        "windows": side.windows,
        "provisional_windows": side.provisional_windows,
        "cost": money_text(side.period.atoms),
        "useful_tokens": side.period.useful_tokens,
    }


def movers(found: Explanation) -> list[tuple[Name, int]]:
    """(tenant, model) and the change of its direct cost, the largest first."""
    names = {*found.before.direct_atoms, *found.after.direct_atoms}
    moved = ((name, found.after.direct_atoms.get(name, 0) - found.before.direct_atoms.get(name, 0)) for name in names)
    return sorted(moved, key=lambda one: (-abs(one[1]), one[0]))


def render(found: Explanation, console: Console) -> None:
    """For people. Names of tenants and models are data: no markup."""
    currency = found.currency or "no currency"
    places = 2 if max(found.before.period.atoms, found.after.period.atoms) >= 100 * 10**12 else 4
    console.print(Text("Why the cost changed", style="bold"))
    for name, side in (("before", found.before), ("after", found.after)):
        windows = "1 window" if side.windows == 1 else f"{side.windows} windows"
        told = f"{name:7}{_range(side.query)}: {_money(side.period.atoms, places)} {currency}, {windows}"
        console.print(Text(told + (f", {side.provisional_windows} of them provisional" if side.provisional_windows else "")))
    table = blank_table("")
    for name in ("part", f"change ({currency})", "because"):
        table.add_column(name, justify="right" if name.startswith("change") else "left")
    reasons = _reasons(found.before.period, found.after.period)
    for name, atoms in found.parts.items():
        if name in FACTORS or atoms:
            table.add_row(name, _signed(atoms, places), reasons.get(name, f"the pool {name} by itself"))
    table.add_section()
    table.add_row("all", _signed(found.difference, places), "to the atom")
    console.print(table)
    _render_movers(found, places, currency, console)


def _render_movers(found: Explanation, places: int, currency: str, console: Console) -> None:
    every = movers(found)
    table = blank_table(f"Direct cost by tenant and model ({currency})")
    for name in ("tenant", "model", "before", "after", "change", "useful tokens"):
        table.add_column(name, justify="left" if name in ("tenant", "model") else "right")
    for (tenant, model), atoms in every[:NAMES_SHOWN_MAX]:
        costs = [_money(side.direct_atoms.get((tenant, model), 0), places) for side in (found.before, found.after)]
        tokens = " → ".join(f"{_tokens(side, (tenant, model)):,}" for side in (found.before, found.after))
        table.add_row(plain(tenant), plain(model), *costs, _signed(atoms, places), tokens)
    console.print(table)
    if len(every) > NAMES_SHOWN_MAX:
        console.print(Text(f"{len(every) - NAMES_SHOWN_MAX} more changed less; --json has them all."))


def _reasons(before: Period, after: Period) -> dict[str, str]:
    """The figure behind each factor, before and after."""

    def each(figure: Callable[[Period], str]) -> str:
        return f"{figure(before)} → {figure(after)}"

    return {
        "volume": "useful tokens " + each(lambda p: f"{p.useful_tokens:,}"),
        "mix": "whose tokens, of which model",
        "work": "GPU ms per 1,000 useful tokens, cache aside "
        + each(lambda p: _ms_per_thousand(p.useful_ns + p.saved_ns, p.useful_tokens)),
        "cache": "of that saved by the prefix cache " + each(lambda p: _percent(p.saved_ns, p.useful_ns + p.saved_ns)),
        "waste": "busy time that was not useful " + each(lambda p: _percent(p.waste_ns, p.waste_ns + p.useful_ns)),
        "utilisation": "GPU time idle " + each(lambda p: _percent(p.idle_ns, p.capacity_ns)),
        "price": "a replica-hour " + each(lambda p: _money(int(p.price * HOUR_NS), 2) if p.capacity_ns else UNKNOWN),
    }


def _ms_per_thousand(ns: Fraction, tokens: int) -> str:
    return f"{float(ns / tokens / 1000):,.1f}" if tokens else UNKNOWN


def _percent(part: Fraction | int, whole: Fraction | int) -> str:
    return f"{float(Fraction(part) / Fraction(whole)):.1%}" if whole else UNKNOWN


def _tokens(side: Side, name: Name) -> int:
    cell = side.period.cells.get(name)
    return cell.useful_tokens if cell else 0


def _money(atoms: int, places: int) -> str:
    return money(Decimal(atoms).scaleb(-12), places)


def _signed(atoms: int, places: int) -> str:
    return ("+" if atoms > 0 else "") + _money(atoms, places)


def _range(query: ReportQuery) -> str:
    known = f", as known on {iso(query.as_of)}" if query.as_of else ""
    return f"{iso(query.from_at)} to {iso(query.to_at)}{known}"
