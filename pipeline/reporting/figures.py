"""Figures of one group from its summed row: ratios of sums, money as exact text, unknown as None. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any

from schemas.report import (
    Cache,
    Cost,
    Figures,
    Latency,
    Quantiles,
    RequestCounts,
    Slo,
    StageQuantiles,
    TokenCounts,
    UnitCost,
    UsageCounts,
)
from schemas.stages import OTHER, STAGES
from schemas.usage import ATOMS_PER_UNIT, TENANT_CLASSES

OUTCOMES = ("useful", "late", "aborted", "failed", "blocked", "rejected", "unmetered")
MEASURES = ("ttft", "tpot", "e2e", "queue")
TOKEN_SUMS = (
    "input", "output", "input_uncached", "input_cache_read", "input_cache_write", "output_text", "output_reasoning",
    "generated", "delivered",
)  # fmt: skip
UNIT_COST_PLACES = Decimal("1e-12")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Costing:
    """How many of the range's pool rows have a price. No price is not a price of 0."""

    priced_pools: int
    unpriced_pools: int

    def known(self, atoms: int, busy_ns: int) -> bool:
        """False where 0 atoms only means that nobody told a price."""
        return atoms != 0 or (self.priced_pools > 0 and (self.unpriced_pools == 0 or busy_ns == 0))


@dataclass(frozen=True, slots=True)
class Charge:
    """What the price book asks. amount None: there are billable tokens and none of them has a price."""

    amount: Decimal | None = Decimal(0)
    unpriced_tokens: int = 0
    unpriced_models: tuple[str, ...] = ()


def money_text(atoms: int) -> str:
    """Atoms as exact decimal text of the currency."""
    sign, (whole, rest) = "-" if atoms < 0 else "", divmod(abs(atoms), ATOMS_PER_UNIT)
    return f"{sign}{whole}.{rest:012d}".rstrip("0").rstrip(".")


def decimal_text(number: Decimal) -> str:
    """Without exponent and without zeros that say nothing."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def figures(row: Row, charge: Charge, latency: Mapping[str, Row], costing: Costing) -> Figures:
    """`row` as in figures.sql, {} for nothing at all; `latency` per measure as in latency_*.sql."""
    atoms, useful_atoms = row.get("atoms", 0), row.get("class_atoms", {}).get("useful", 0)
    return Figures(
        requests=RequestCounts(total=row.get("requests", 0), **{name: row.get("outcomes", {}).get(name, 0) for name in OUTCOMES}),
        attempts=row.get("attempts", 0),
        failed_attempts=row.get("failed_attempts", 0),
        tokens=TokenCounts(
            **{name: row.get(f"{name}_tokens") for name in TOKEN_SUMS},
            delivered_assumed=None if row.get("delivered_tokens") is None else row["delivered_assumed_tokens"],
            useful=row.get("useful_tokens", 0),
        ),
        usage=UsageCounts(
            reported=row.get("usage_reported", 0),
            estimated=row.get("usage_estimated", 0),
            unknown=row.get("usage_unknown", 0),
            split_unknown=row.get("split_unknown", 0),
        ),
        cost=_cost(row, costing),
        cost_per_million_useful_tokens=_unit_cost(row, costing),
        charged=None if charge.amount is None else decimal_text(charge.amount),
        waste_ratio=ratio(atoms - useful_atoms, atoms),
        cache=Cache(
            hit_ratio=ratio(row.get("hit_tokens", 0), row.get("hit_base_tokens", 0)),
            saved_gross=None if row.get("saved_gross_atoms") is None else money_text(row["saved_gross_atoms"]),
        ),
        latency=Latency(**{f"{name}_ns": Quantiles(**_quantiles(latency.get(name))) for name in MEASURES}),
        stages={
            stage: StageQuantiles(**_quantiles(found), quality=tuple(found["quality"]))
            for stage in (*STAGES, OTHER)
            if (found := latency.get(f"stage:{stage}")) is not None
        },
        slo=Slo(met=row.get("slo_met", 0), of=row.get("slo_of", 0), ratio=ratio(row.get("slo_met", 0), row.get("slo_of", 0))),
    )


def _cost(row: Row, costing: Costing) -> Cost:
    atoms, by_class = row.get("atoms", 0), row.get("class_atoms", {})
    spent = atoms + row.get("platform_paid_atoms", 0)
    if not costing.known(spent, row.get("busy_ns", 0)):
        nothing = dict.fromkeys(TENANT_CLASSES)
        return Cost(direct=None, useful=None, waste=None, platform_paid=None, fully_loaded=None, by_class=nothing)
    return Cost(
        direct=money_text(atoms),
        useful=money_text(by_class.get("useful", 0)),
        waste=money_text(atoms - by_class.get("useful", 0)),
        platform_paid=money_text(row.get("platform_paid_atoms", 0)),
        fully_loaded=money_text(row.get("fully_loaded_atoms", 0)),
        by_class={name: money_text(by_class.get(name, 0)) for name in TENANT_CLASSES},
    )


def _unit_cost(row: Row, costing: Costing) -> UnitCost:
    spent = row.get("atoms", 0) + row.get("platform_paid_atoms", 0)
    if not row.get("useful_tokens") or not costing.known(spent, row.get("busy_ns", 0)):
        return UnitCost(direct=None, fully_loaded=None)
    return UnitCost(
        direct=per_million_text(row["atoms"], row["useful_tokens"]),
        fully_loaded=per_million_text(row["fully_loaded_atoms"], row["useful_tokens"]),
    )


def per_million_text(atoms: int, tokens: int) -> str:
    """atoms x 1,000,000 / tokens in the currency, rounded half to even at 12 places."""
    with localcontext(prec=80):
        return decimal_text((Decimal(atoms) * 1_000_000 / ATOMS_PER_UNIT / tokens).quantize(UNIT_COST_PLACES, ROUND_HALF_EVEN))


def _quantiles(row: Row | None) -> dict[str, Any]:
    if row is None:
        return {"n": 0, "p50": None, "p95": None, "p99": None, "p99_9": None, "kind": None}
    return {name: row[name] for name in ("n", "p50", "p95", "p99", "p99_9", "kind")}
