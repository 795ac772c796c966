"""The report: reads published rollups, computes ratios, sums no money twice. Rendering is in `report_table`, files in `report_files`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pipeline.errors import CheckFailed, ConfigurationError
from pipeline.reporting.figures import Charge, Costing, figures, money_text
from pipeline.statements import statement
from pipeline.store.client import Store
from schemas.report import (
    Blamed,
    Conservation,
    DataQuality,
    Figures,
    Group,
    GroupBy,
    LeakCell,
    Range,
    Report,
    UnaccountedTokens,
)
from schemas.usage import POOLS, SHARED_CLASSES

SQL = "pipeline.reporting.report_sql"
END_OF_TIME: Final = datetime(2200, 1, 1, tzinfo=UTC)
EXACT_REQUESTS_MAX = 1_000_000  # beyond, quantiles of several windows are merged from sketches

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """`[from_at, to_at)`, aware; widened to whole windows. `as_of`: only what was recorded by then. Raises ConfigurationError."""

    from_at: datetime
    to_at: datetime
    by: GroupBy = "tenant"
    tenant: str = ""  # '' = all
    model: str = ""
    as_of: datetime | None = None

    def __post_init__(self) -> None:
        for name, at in (("--from", self.from_at), ("--to", self.to_at), ("--as-of", self.as_of or self.to_at)):
            if at.tzinfo is None:
                raise ConfigurationError(f"{name} {at.isoformat()} has no time zone; write 2026-11-30T10:00:00Z")
        if self.from_at >= self.to_at:
            raise ConfigurationError(f"--from {self.from_at.isoformat()} is not before --to {self.to_at.isoformat()}: the range is empty")


def month_to_date(now: datetime) -> tuple[datetime, datetime]:
    """From the first of the UTC month to the end of the current second."""
    now = now.astimezone(UTC)
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0), now.replace(microsecond=0) + timedelta(seconds=1)


def build_report(store: Store, query: ReportQuery, dead_letters: int | None = None) -> Report:
    """All figures of one consistent state: what was published by the time of the first read (or `as_of`).

    `dead_letters`: their number if the caller knows it. Raises CheckFailed when the range holds two currencies.
    """
    parameters = parameters_of(query)
    windows = _rows(store, "published", parameters)[0]
    available = _rows(store, "available", parameters)[0]
    requested = Range(from_at=query.from_at.astimezone(UTC), to_at=query.to_at.astimezone(UTC))
    effective = requested
    if windows["windows"]:
        effective = Range(from_at=min(requested.from_at, windows["first_from"]), to_at=max(requested.to_at, windows["last_to"]))
        # A run that publishes meanwhile must not mix into these figures.
        parameters |= {"from": effective.from_at, "to": effective.to_at, "as_of": windows["recorded_at"]}
    money = _rows(store, "money", parameters)[0]
    currency = _currency(store, money["currencies"], windows["config_hash"])
    costing = Costing(priced_pools=money["priced_pools"], unpriced_pools=len(money["unpriced"]))
    groups, charges = _groups(store, query.by, parameters, costing)
    totals, totals_row = _totals(store, parameters, costing)
    return Report(
        by=query.by,
        range=effective,
        requested=requested,
        available=Range(from_at=available["first_from"], to_at=available["last_to"]) if available["windows"] else None,
        currency=currency,
        as_of=query.as_of,
        method=_joined(windows["methods"]),
        useful_policy=_joined(windows["useful_policies"]),
        windows=windows["windows"],
        provisional_windows=windows["provisional"],
        config_hash=windows["config_hash"] or None,
        groups=groups,
        unallocated=_unallocated(money["class_atoms"], costing),
        pools=_pools(money),
        totals=totals,
        leak=tuple(
            LeakCell(cost_class=row["cost_class"], stage=row["stage"], cost=money_text(row["atoms"]))
            for row in _rows(store, "leak", parameters)
        ),
        misses=tuple(Blamed(**row) for row in _rows(store, "blames", {**parameters, "cause": "slo"})),
        tail=tuple(Blamed(**row) for row in _rows(store, "blames", {**parameters, "cause": "tail"})),
        conservation=conservation(money),
        data_quality=DataQuality(
            unknown_tenant_ratio=totals_row["unknown_tenant_requests"] / totals_row["requests"] if totals_row.get("requests") else None,
            rejected_spans=_rejected_spans(store, effective),
            dead_letters=dead_letters,
            unpriced_replicas=tuple(money["unpriced"]),
            unpriced_models=tuple(sorted({model for charge in charges.values() for model in charge.unpriced_models})),
            unaccounted_tokens=UnaccountedTokens(**_rows(store, "unaccounted_tokens", parameters)[0]),
            left_out={row["reason"]: row["spans"] for row in _rows(store, "left_out", parameters)},
            flags=dict(sorted(totals_row.get("flags", {}).items())),
        ),
    )


def conservation(money: Row) -> Conservation:
    """Pools against every atom that the rollups hold: tenants' and nobody's."""
    pools, held = int(money["pools_atoms"]), int(money["tenants_atoms"]) + sum(money["class_atoms"].values())
    return Conservation(pools_atoms=str(pools), ledger_atoms=str(held), difference_atoms=str(pools - held))


def parameters_of(query: ReportQuery) -> dict[str, Any]:
    """Server-side parameters of the statements in report_sql and explain_sql."""
    from_at, to_at = query.from_at.astimezone(UTC), query.to_at.astimezone(UTC)
    return {
        "from": from_at.replace(microsecond=0),
        "to": to_at if to_at.microsecond == 0 else to_at.replace(microsecond=0) + timedelta(seconds=1),
        "as_of": (query.as_of or END_OF_TIME).astimezone(UTC),
        "tenant": query.tenant,
        "model": query.model,
        "by": query.by,
    }


def _rows(store: Store, name: str, parameters: Row) -> list[dict[str, Any]]:
    return store.query(statement(SQL, name), parameters).dicts()


def _groups(store: Store, by: GroupBy, parameters: Row, costing: Costing) -> tuple[tuple[Group, ...], dict[str, Charge]]:
    """Dearest first; hours in their order."""
    parameters = {**parameters, "by": by}
    rows, charges = _rows(store, "figures", parameters), _charges(store, parameters)
    latency = _latency(store, parameters, sum(row["requests"] for row in rows))
    if by != "hour":
        rows.sort(key=lambda row: (-row["atoms"], -row["requests"], row["key"]))
    groups = tuple(
        Group(key=row["key"], figures=figures(row, charges.get(row["key"], Charge()), latency.get(row["key"], {}), costing)) for row in rows
    )
    return groups, charges


def _totals(store: Store, parameters: Row, costing: Costing) -> tuple[Figures, Row]:
    parameters = {**parameters, "by": "total"}
    row = next(iter(_rows(store, "figures", parameters)), {})
    charge = _charges(store, parameters).get("", Charge())
    if not row:
        charge = replace(charge, amount=None)
    latency = _latency(store, parameters, row.get("requests", 0)).get("", {})
    return figures(row, charge, latency, costing), row


def _charges(store: Store, parameters: Row) -> dict[str, Charge]:
    return {
        row["key"]: Charge(row["amount"], row["unpriced_tokens"], tuple(row["unpriced_models"]))
        for row in _rows(store, "charges", parameters)
    }  # fmt: skip


def _latency(store: Store, parameters: Row, counted: int) -> dict[str, dict[str, Row]]:
    """Per group and measure. Exact from the requests where all `counted` are still there and not too many, else from the rollups."""
    kept = store.query(statement(SQL, "requests_kept"), parameters).scalar()
    source = "latency_exact" if counted == kept <= EXACT_REQUESTS_MAX else "latency_sketch"
    found: dict[str, dict[str, Row]] = {}
    for row in _rows(store, source, parameters):
        found.setdefault(row["key"], {})[row["measure"]] = row
    return found


def _currency(store: Store, currencies: list[str], config_hash: str) -> str | None:
    if len(currencies) > 1:
        raise CheckFailed(
            f"the range holds amounts in {' and '.join(currencies)}, which cannot be added; report the time of each by itself"
        )
    return currencies[0] if currencies else store.query(statement(SQL, "currency"), {"config_hash": config_hash}).scalar() or None


def _unallocated(class_atoms: Mapping[str, int], costing: Costing) -> dict[str, str | None]:
    """What the platform pays of attempts counts as its waste here."""
    sums = dict.fromkeys(SHARED_CLASSES, 0)
    for name, atoms in class_atoms.items():
        sums[name if name in sums else "platform_waste"] += atoms
    return {name: money_text(atoms) if atoms or costing.priced_pools else None for name, atoms in sums.items()}


def _pools(money: Row) -> dict[str, str | None]:
    """Only pools that the range has; null where nothing of one has a price."""
    found, told = money["pool_atoms"], money["told_pools"]
    return {name: money_text(found[name]) if name in told else None for name in POOLS if name in found}


def _rejected_spans(store: Store, during: Range) -> int:
    bounds = {"from_ns": _ns(during.from_at), "to_ns": _ns(during.to_at)}
    return int(store.query(statement(SQL, "rejected_spans"), bounds).scalar())


def _ns(at: datetime) -> int:
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return max(0, (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000)


def _joined(names: list[str]) -> str | None:
    return ", ".join(names) or None
