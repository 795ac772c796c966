"""Our own check of FOCUS rows, run on every export before it is written.

The public validators miss a wrong contracted cost, an unknown enum value, a wrong date or a wrong unit; this one is exact (Decimal).
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal, localcontext

from pipeline.billing.focus_columns import (
    COLUMNS,
    COSTS,
    CURRENCY,
    CUSTOM_NAME,
    DATE,
    DATES,
    ENUMS,
    MANDATORY,
    NUMBER,
    NUMBERS,
    PRICES,
    REPEATED,
    TOKENS_PER_UNIT,
)

Row = Mapping[str, str]

USAGE_COLUMNS = (
    "ConsumedQuantity",
    "ConsumedUnit",
    "PricingQuantity",
    "PricingUnit",
    *PRICES,
    "SkuId",
    "SkuPriceId",
    "SkuMeter",
    "PricingCategory",
)
TAX_NULLS = ("SkuId", "SkuPriceId", "PricingQuantity", "PricingUnit", *PRICES)
ONE_FROM_OTHER = (
    ("SkuPriceId", "SkuId"), ("SkuPriceId", "SkuPriceDetails"), ("SkuId", "SkuMeter"), ("ServiceName", "ServiceCategory"),
    ("ServiceName", "ServiceSubcategory"), ("SubAccountId", "BillingAccountId"),
)  # fmt: skip
KEY = (
    "SubAccountId", "SkuPriceId", "x_ModelId", "ChargePeriodStart", "ChargeCategory", "ChargeClass",
    "ContractedUnitPrice", "ListUnitPrice", "x_PriceBookVersion",
)  # fmt: skip


def lint_focus(rows: Sequence[Row]) -> list[str]:
    """What is wrong, one line each (`row 3, BilledCost: …`, rows from 1); empty: nothing. Cells are text, '' is null."""
    problems: list[str] = []
    for number, row in enumerate(rows, 1):
        found = list(_columns(row)) or [*_cells(row), *_categories(row)]
        if not found:  # arithmetic only on cells that are numbers and dates
            found = [*_arithmetic(row), *_repeated(row), *_periods(row)]
        problems += [f"row {number}, {problem}" for problem in found]
    return [*problems, *_across(rows)]


def _columns(row: Row) -> Iterator[str]:
    for name in MANDATORY:
        if name not in row:
            yield f"{name}: the column is missing"
    for name in row:
        if name not in COLUMNS and not (name.startswith("x_") and CUSTOM_NAME.fullmatch(name) and len(name) <= 50):
            yield f"{name}: no FOCUS 1.2 column, and not x_ with PascalCase of at most 50 characters"


def _cells(row: Row) -> Iterator[str]:
    for name, may_be_null in MANDATORY.items():
        if not may_be_null and row[name] == "":
            yield f"{name}: must not be null"
    for name, allowed in ENUMS.items():
        if name in row and row[name] not in allowed:
            yield f"{name}: {row[name]!r} is not one of {', '.join(sorted(value for value in allowed if value))}"
    for name in NUMBERS:
        if row.get(name) and not NUMBER.fullmatch(row[name]):
            yield f"{name}: {row[name]!r} is not a plain decimal (no exponent, sign +, comma or currency mark)"
    for name in DATES:
        if not _is_midnight(row[name]):
            yield f"{name}: {row[name]!r} is not YYYY-MM-DDT00:00:00Z"
    if not CURRENCY.fullmatch(row["BillingCurrency"]):
        yield f"BillingCurrency: {row['BillingCurrency']!r} is not an ISO 4217 code"
    if row["ProviderName"] != row["InvoiceIssuerName"]:
        yield "ProviderName: must equal InvoiceIssuerName to the letter where the issuer bills its own service"
    if row.get("SkuPriceDetails"):
        yield from _details(row["SkuPriceDetails"])
    if bool(row.get("SubAccountId")) != bool(row.get("SubAccountName")):
        yield "SubAccountName: must be null exactly where SubAccountId is"


def _is_midnight(text: str) -> bool:
    try:
        return DATE.fullmatch(text) is not None and date.fromisoformat(text[:10]) > date.min
    except ValueError:  # 31 November
        return False


def _details(text: str) -> Iterator[str]:
    try:
        details = json.loads(text)
    except ValueError:
        details = None
    if not isinstance(details, dict):
        yield f"SkuPriceDetails: {text!r} is not a JSON object"
    elif strange := [key for key in details if not key.startswith("x_")]:
        yield f"SkuPriceDetails: key {strange[0]!r} is not defined by FOCUS 1.2 and does not begin with x_"


def _categories(row: Row) -> Iterator[str]:
    category, correction = row["ChargeCategory"], row["ChargeClass"] == "Correction"
    if category == "Usage" and not correction:
        for name in USAGE_COLUMNS:
            if row.get(name, "") == "":
                yield f"{name}: must not be null on Usage"
    if category != "Usage":
        for name in ("ConsumedQuantity", "ConsumedUnit"):
            if row.get(name):
                yield f"{name}: must be null on {category}"
    if category == "Tax":
        for name in TAX_NULLS:
            if row.get(name):
                yield f"{name}: must be null on Tax"
    if category in ("Credit", "Adjustment") and len({row[name] for name in COSTS}) > 1:
        yield f"BilledCost: the four costs must be equal on {category}"


def _arithmetic(row: Row) -> Iterator[str]:
    if row["ChargeCategory"] != "Usage" or row["ChargeClass"] == "Correction":
        return
    number = {name: Decimal(row[name]) for name in NUMBERS}
    with localcontext(prec=100):
        for cost, price in (("ListCost", "ListUnitPrice"), ("ContractedCost", "ContractedUnitPrice")):
            if number[cost] != number[price] * number["PricingQuantity"]:
                yield f"{cost}: {row[cost]} is not {price} {row[price]} x PricingQuantity {row['PricingQuantity']}"
        if number["ConsumedQuantity"] != number["PricingQuantity"] * TOKENS_PER_UNIT:
            yield f"PricingQuantity: {row['PricingQuantity']} million is not {row['ConsumedQuantity']} tokens"
    for name in ("BilledCost", "EffectiveCost"):
        if number[name] != number["ContractedCost"]:
            yield f"{name}: {row[name]} differs from ContractedCost {row['ContractedCost']} without a commitment"
    for name in (*PRICES, "ConsumedQuantity"):
        if number[name] < 0:
            yield f"{name}: must not be negative"
    if number["ConsumedQuantity"] != number["ConsumedQuantity"].to_integral_value():
        yield "ConsumedQuantity: tokens are whole"


def _repeated(row: Row) -> Iterator[str]:
    for name, partner in REPEATED.items():
        if name in row and row[name] != row.get(partner):
            yield f"{name}: {row[name]!r} differs from {partner} {row.get(partner)!r} though both are in the billing currency"


def _periods(row: Row) -> Iterator[str]:
    billing_start, billing_end, charge_start, charge_end = (row[name] for name in DATES)
    if billing_start >= billing_end:
        yield "BillingPeriodEnd: is not after BillingPeriodStart"
    if charge_start >= charge_end:
        yield "ChargePeriodEnd: is not after ChargePeriodStart"
    if row["ChargeClass"] != "Correction" and not (billing_start <= charge_start and charge_end <= billing_end):
        yield "ChargePeriodStart: the charge lies outside its billing period"


def _across(rows: Sequence[Row]) -> Iterator[str]:
    for one, other in ONE_FROM_OTHER:
        values: dict[str, set[str]] = {}
        for row in rows:
            if row.get(one):
                values.setdefault(row[one], set()).add(row.get(other, ""))
        for value, others in sorted(values.items()):
            if len(others) > 1:
                yield f"all rows, {one}: {value!r} has more than one {other}: {', '.join(sorted(others))}"
    if len({row.get("BillingCurrency") for row in rows}) > 1:
        yield "all rows, BillingCurrency: more than one currency in a file"
    for key, times in Counter(tuple(row.get(name, "") for name in KEY) for row in rows).items():
        if times > 1:
            yield f"all rows, {KEY[0]}: {times} rows charge the same thing: {', '.join(key)}"
