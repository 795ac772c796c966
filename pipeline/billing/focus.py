"""FOCUS 1.2 Cost and Usage from the price book: one row per tenant, model, meter and UTC day. The cost book is another book, not in here.

Tokens are rows: each bucket is a meter with its own SKU, `Input Tokens` meaning uncached ones, so that meters add up.
"""

import csv
import io
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any, Literal

from pipeline.billing.focus_columns import COLUMNS, CONSUMED_UNIT, METERS, PRICE_DETAILS, PRICING_UNIT, REPEATED, TOKENS_PER_UNIT
from pipeline.billing.focus_lint import lint_focus
from pipeline.errors import CheckFailed, ConfigurationError
from pipeline.statements import statement
from pipeline.store.client import Store

SQL = "pipeline.billing.sql"
SERVICE_NAME = "LLM Inference"
PROBLEMS_SHOWN_MAX = 10
_DIGITS = 100


@dataclass(frozen=True, slots=True)
class Usage:
    """Billable tokens of one day at one price. `per_million` None: unpriced."""

    tenant: str
    model: str
    bucket: str
    day: str  # YYYY-MM-DD
    sku: str
    price_version: str
    currency: str
    per_million: Decimal | None
    list_per_million: Decimal | None
    tokens: int
    useful_tokens: int


@dataclass(frozen=True, slots=True)
class Tenant:
    """'' where the configuration does not say: then the tenant's id stands for it."""

    tenant: str
    name: str = ""
    billing_account: str = ""


@dataclass(frozen=True, slots=True)
class FocusExport:
    """What was written. `unpriced`: (tenant, model, bucket, tokens) that no price row fits, so that no row charges them."""

    path: str
    month: str
    version: str
    rows: int
    billed: str
    currency: str
    closed_windows: int
    provisional_windows: int
    unpriced: tuple[tuple[str, str, str, int], ...]
    data_in: str  # months with attributed windows, '' if there are none

    def as_dict(self) -> dict[str, Any]:
        names = ("tenant", "model", "bucket", "tokens")
        return {**asdict(self), "unpriced": [dict(zip(names, item, strict=True)) for item in self.unpriced]}

    def text(self) -> str:
        """For people; no markup in it, so print it as it is."""
        lines = [f"FOCUS {self.version}, {self.month}: {self.rows} rows, {self.billed} {self.currency} billed, written to {self.path}"]
        if self.rows == 0:
            where = (
                f"there is attributed data in {self.data_in}" if self.data_in else "nothing was attributed yet: run `tokenpath attribute`"
            )
            lines = [f"FOCUS {self.version}, {self.month}: no billable usage with a price; {where}. {self.path} holds only the header."]
        if self.provisional_windows:
            lines.append(f"Left out: {self.provisional_windows} windows that are still open (provisional, never billed).")
        for tenant, model, bucket, tokens in self.unpriced:
            what = f"{tokens:,} {bucket} tokens of {_plain(model)} for {_plain(tenant)}"
            lines.append(f"Unpriced, so not in the file: {what}; add a price to prices.toml.")
        return "\n".join(lines)


def export_focus(store: Store, month: str, path: Path, *, provider: str, version: Literal["1.2"] = "1.2") -> FocusExport:
    """Writes the month (YYYY-MM, UTC) to `path`, whole or not at all; a second export of unchanged data writes equal bytes.

    Raises ConfigurationError (month, version, folder), or CheckFailed when the rows break a rule: nothing is written then.
    """
    if version != "1.2":
        raise ConfigurationError(f"FOCUS version {version!r} is not offered; use 1.2")
    first, after = month_bounds(month)
    during = {"from": _midnight(first), "to": _midnight(after)}
    usages = [Usage(*row) for row in store.query(statement(SQL, "focus_usage"), during).rows]
    windows = store.query(statement(SQL, "focus_windows"), during).dicts()[0]
    tenants = {row[0]: Tenant(*row) for row in store.query(statement(SQL, "focus_tenants")).rows}
    rows = focus_rows(usages, tenants, provider)
    if problems := lint_focus(rows):
        shown = "\n".join(problems[:PROBLEMS_SHOWN_MAX])
        raise CheckFailed(f"{len(problems)} cells break FOCUS {version}, {path} was not written:\n{shown}")
    write_whole(path, focus_csv(rows))
    with localcontext(prec=_DIGITS):
        billed = sum((Decimal(row["BilledCost"]) for row in rows), Decimal(0))
    return FocusExport(
        path=str(path),
        month=month,
        version=version,
        rows=len(rows),
        billed=number_text(billed),
        currency=rows[0]["BillingCurrency"] if rows else "",
        closed_windows=windows["closed"],
        provisional_windows=windows["provisional"],
        unpriced=_unpriced(usages),
        data_in=_months(windows),
    )


def month_bounds(month: str) -> tuple[date, date]:
    """First day, and first day of the next month. Raises ConfigurationError."""
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month) or not "1970-01" <= month <= "2105-12":
        raise ConfigurationError(f"--month {month!r}: expected YYYY-MM, for example 2026-11")
    first = date(int(month[:4]), int(month[5:]), 1)
    return first, (first + timedelta(days=31)).replace(day=1)


def focus_rows(usages: Sequence[Usage], tenants: Mapping[str, Tenant], provider: str) -> list[dict[str, str]]:
    """A row per priced usage, in the order given."""
    return [focus_row(usage, tenants, provider) for usage in usages if usage.per_million is not None]


def focus_row(usage: Usage, tenants: Mapping[str, Tenant], provider: str) -> dict[str, str]:
    """Raises ValueError for an unpriced usage: it has no row. Without a list price the contracted one is the list price."""
    if usage.per_million is None:
        raise ValueError(f"{usage.model} {usage.bucket} has no price")
    listed = usage.per_million if usage.list_per_million is None else usage.list_per_million
    day = date.fromisoformat(usage.day)
    first, after = month_bounds(usage.day[:7])
    meter = METERS.get(usage.bucket, f"{usage.bucket.replace('_', ' ').title()} Tokens")
    tenant = tenants.get(usage.tenant, Tenant(usage.tenant))
    account = tenant.billing_account or usage.tenant
    with localcontext(prec=_DIGITS):
        quantity = Decimal(usage.tokens) / TOKENS_PER_UNIT
        contracted_cost, list_cost = number_text(usage.per_million * quantity), number_text(listed * quantity)
    row = {
        "BilledCost": contracted_cost,
        "BillingAccountId": account,
        "BillingAccountName": tenants.get(account, Tenant(account)).name or account,
        "BillingCurrency": usage.currency,
        "BillingPeriodEnd": _timestamp(after),
        "BillingPeriodStart": _timestamp(first),
        "ChargeCategory": "Usage",
        "ChargeClass": "",
        "ChargeDescription": f"{usage.model}: {meter}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": _timestamp(day + timedelta(days=1)),
        "ChargePeriodStart": _timestamp(day),
        "CommitmentDiscountStatus": "",
        "ConsumedQuantity": number_text(Decimal(usage.tokens)),
        "ConsumedUnit": CONSUMED_UNIT,
        "ContractedCost": contracted_cost,
        "ContractedUnitPrice": number_text(usage.per_million),
        "EffectiveCost": contracted_cost,
        "InvoiceId": "",
        "InvoiceIssuerName": provider,
        "ListCost": list_cost,
        "ListUnitPrice": number_text(listed),
        "PricingCategory": "Standard",
        "PricingQuantity": number_text(quantity),
        "PricingUnit": PRICING_UNIT,
        "ProviderName": provider,
        "PublisherName": provider,
        "ServiceCategory": "AI and Machine Learning",
        "ServiceName": SERVICE_NAME,
        "ServiceSubcategory": "Generative AI",
        "SkuId": f"{usage.sku}/{usage.bucket}",
        "SkuMeter": meter,
        "SkuPriceDetails": json.dumps(PRICE_DETAILS.get(usage.bucket, {}), separators=(",", ":")),
        "SkuPriceId": f"{usage.sku}/{usage.bucket}/standard",
        "SubAccountId": usage.tenant,
        "SubAccountName": tenant.name or usage.tenant,
        "x_ModelId": usage.model,
        "x_PriceBookVersion": usage.price_version,
        "x_TenantId": usage.tenant,
        "x_UsefulTokens": str(usage.useful_tokens),
    }
    row |= {name: row[partner] for name, partner in REPEATED.items()}
    return {name: row[name] for name in COLUMNS}


def focus_csv(rows: Sequence[Mapping[str, str]]) -> str:
    """RFC 4180. Names are quoted, never altered (FOCUS forbids it), so a spreadsheet must import them as text."""
    written = io.StringIO()
    writer = csv.DictWriter(written, fieldnames=COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def write_whole(path: Path, text: str) -> None:
    """Beside the target, on disk, then renamed: readers see the old file or the new one. Raises ConfigurationError."""
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise ConfigurationError(f"--out {path}: {error.strerror or error}; name a file in a folder that can be written") from error


def number_text(number: Decimal) -> str:
    """Plain decimal text, no exponent. A whole number keeps one place: readers that guess types then see a decimal column."""
    whole, _, places = format(number, "f").partition(".")
    return f"{whole}.{places.rstrip('0') or '0'}"


def _unpriced(usages: Sequence[Usage]) -> tuple[tuple[str, str, str, int], ...]:
    sums: dict[tuple[str, str, str], int] = {}
    for usage in usages:
        if usage.per_million is None:
            key = (usage.tenant, usage.model, usage.bucket)
            sums[key] = sums.get(key, 0) + usage.tokens
    return tuple((*key, tokens) for key, tokens in sorted(sums.items()))


def _months(windows: Mapping[str, Any]) -> str:
    if not windows["windows"]:
        return ""
    first, last = windows["first_month"], windows["last_month"]
    return str(first) if first == last else f"{first} to {last}"


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _timestamp(day: date) -> str:
    return f"{day.isoformat()}T00:00:00Z"


def _plain(name: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)
