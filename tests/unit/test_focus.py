"""FOCUS rows: exact identities, and a lint that catches each broken cell."""

import csv
import io
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.billing.focus import Tenant, Usage, focus_csv, focus_row, focus_rows, month_bounds, write_whole
from pipeline.billing.focus_columns import COLUMNS, MANDATORY
from pipeline.billing.focus_lint import lint_focus
from pipeline.errors import ConfigurationError

USAGE = Usage(
    "acme", "llama-3.3-70b", "input_cache_read", "2026-11-30", "llama", "c0ffee", "USD", Decimal("0.15"), Decimal("0.20"), 21_612_345, 7
)
TENANTS = {"acme": Tenant("acme", "Acme Ltd", "holding"), "holding": Tenant("holding", "Holding AG", "")}
GOOD = focus_row(USAGE, TENANTS, "Tokenpath operator")

BROKEN = [
    ("BilledCost", "3.24", "BilledCost: 3.24 differs from ContractedCost"),
    ("BilledCost", "1E+2", "BilledCost: '1E+2' is not a plain decimal"),
    ("BilledCost", "", "BilledCost: must not be null"),
    ("ContractedCost", "3.24185176", "ContractedCost: 3.24185176 is not ContractedUnitPrice 0.15 x PricingQuantity 21.612345"),
    ("ListCost", "4.3224690000001", "ListCost"),
    ("EffectiveCost", "0", "EffectiveCost: 0 differs"),
    ("ConsumedQuantity", "21612344", "PricingQuantity: 21.612345 million is not 21612344 tokens"),
    ("ConsumedQuantity", "1,000", "ConsumedQuantity: '1,000' is not a plain decimal"),
    ("ConsumedQuantity", "", "ConsumedQuantity: must not be null on Usage"),
    ("PricingQuantity", "+21.612345", "PricingQuantity: '+21.612345'"),
    ("ListUnitPrice", "$0.20", "ListUnitPrice"),
    ("ContractedUnitPrice", "", "ContractedUnitPrice: must not be null on Usage"),
    ("PricingUnit", "1M tokens", "PricingUnit: '1M tokens' is not one of 1000000 Tokens"),
    ("ConsumedUnit", "tokens", "ConsumedUnit"),
    ("BillingCurrency", "usd", "BillingCurrency: 'usd' is not an ISO 4217 code"),
    ("ChargeCategory", "Tokens", "ChargeCategory: 'Tokens' is not one of"),
    ("ChargeCategory", "Credit", "ConsumedQuantity: must be null on Credit"),
    ("ChargeCategory", "Tax", "SkuId: must be null on Tax"),
    ("ChargeClass", "Refund", "ChargeClass"),
    ("ChargeFrequency", "Daily", "ChargeFrequency"),
    ("PricingCategory", "Cheap", "PricingCategory"),
    ("ServiceCategory", "AI", "ServiceCategory"),
    ("ServiceSubcategory", "LLM", "ServiceSubcategory"),
    ("ChargePeriodStart", "2026-11-30 00:00:00", "ChargePeriodStart: '2026-11-30 00:00:00' is not"),
    ("ChargePeriodStart", "2026-10-31T00:00:00Z", "ChargePeriodStart: the charge lies outside its billing period"),
    ("ChargePeriodEnd", "2026-11-29T00:00:00Z", "ChargePeriodEnd: is not after"),
    ("ChargePeriodEnd", "2026-11-31T00:00:00Z", "ChargePeriodEnd: '2026-11-31T00:00:00Z' is not"),
    ("BillingPeriodEnd", "2026-10-01T00:00:00Z", "BillingPeriodEnd: is not after"),
    ("BillingPeriodStart", "2026-13-01T00:00:00Z", "BillingPeriodStart"),
    ("ProviderName", "tokenpath operator", "ProviderName: must equal InvoiceIssuerName"),
    ("InvoiceIssuerName", "", "InvoiceIssuerName: must not be null"),
    ("PricingCurrency", "EUR", "PricingCurrency: 'EUR' differs from BillingCurrency 'USD'"),
    ("PricingCurrencyListUnitPrice", "0.20", "PricingCurrencyListUnitPrice: '0.20' differs from ListUnitPrice '0.2'"),
    ("SkuPriceDetails", "{", "SkuPriceDetails: '{' is not a JSON object"),
    ("SkuPriceDetails", '{"TokenType":"Input"}', "SkuPriceDetails: key 'TokenType'"),
    ("SubAccountName", "", "SubAccountName"),
    ("SkuPriceId", "", "SkuPriceId: must not be null on Usage"),
    ("x_tenant_id", "acme", "x_tenant_id: no FOCUS 1.2 column"),
    ("TokenCount", "1", "TokenCount: no FOCUS 1.2 column"),
]


def test_a_row_carries_the_exact_products_and_the_names() -> None:
    assert list(GOOD) == list(COLUMNS)
    assert lint_focus([GOOD]) == []
    expected = {
        "ConsumedQuantity": "21612345.0",
        "PricingQuantity": "21.612345",
        "ContractedCost": "3.24185175",
        "BilledCost": "3.24185175",
        "EffectiveCost": "3.24185175",
        "ListCost": "4.322469",
        "ContractedUnitPrice": "0.15",
        "ListUnitPrice": "0.2",
        "SkuMeter": "Cache Read Input Tokens",
        "SkuId": "llama/input_cache_read",
        "BillingAccountId": "holding",
        "BillingAccountName": "Holding AG",
        "SubAccountId": "acme",
        "SubAccountName": "Acme Ltd",
        "BillingPeriodStart": "2026-11-01T00:00:00Z",
        "BillingPeriodEnd": "2026-12-01T00:00:00Z",
        "ChargePeriodStart": "2026-11-30T00:00:00Z",
        "ChargePeriodEnd": "2026-12-01T00:00:00Z",
        "ChargeClass": "",
        "x_UsefulTokens": "7",
    }
    assert {name: GOOD[name] for name in expected} == expected


@pytest.mark.parametrize(("column", "value", "complaint"), BROKEN)
def test_the_lint_catches_a_broken_cell(column: str, value: str, complaint: str) -> None:
    problems = lint_focus(
        [GOOD, {**GOOD, "ChargePeriodStart": "2026-11-29T00:00:00Z", "ChargePeriodEnd": "2026-11-30T00:00:00Z", column: value}]
    )
    assert any(problem.startswith(f"row 2, {complaint}") for problem in problems), problems


@pytest.mark.parametrize("column", MANDATORY)
def test_the_lint_misses_no_mandatory_column(column: str) -> None:
    assert lint_focus([{name: cell for name, cell in GOOD.items() if name != column}])[0] == f"row 1, {column}: the column is missing"


def test_the_lint_looks_across_rows() -> None:
    other = {**GOOD, "ChargePeriodStart": "2026-11-29T00:00:00Z", "ChargePeriodEnd": "2026-11-30T00:00:00Z"}
    assert lint_focus([GOOD, other]) == []
    assert "2 rows charge the same thing" in lint_focus([GOOD, GOOD])[0]
    assert "more than one SkuId" in lint_focus([GOOD, {**other, "SkuId": "llama/input"}])[0]
    assert "more than one currency" in lint_focus([GOOD, {**other, "BillingCurrency": "EUR", "PricingCurrency": "EUR"}])[0]
    assert "more than one BillingAccountId" in lint_focus([GOOD, {**other, "BillingAccountId": "acme"}])[0]


def test_a_correction_may_break_the_identity_and_reach_back_before_its_billing_period() -> None:
    correction = {**GOOD, "ChargeClass": "Correction", "ListCost": "-1", "ChargePeriodStart": "2026-10-01T00:00:00Z"}
    assert lint_focus([correction]) == []


@given(
    tokens=st.integers(1, 2**64 - 1),
    per_million=st.decimals(min_value=0, max_value=10**9, places=12),
    listed=st.none() | st.decimals(min_value=0, max_value=10**9, places=12),
    tenant=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1),
    bucket=st.sampled_from(["input_uncached", "output_reasoning", "audio"]),
)
def test_any_usage_gives_a_row_without_fault_that_survives_csv(
    tokens: int, per_million: Decimal, listed: Decimal | None, tenant: str, bucket: str
) -> None:
    usage = replace(USAGE, tokens=tokens, per_million=per_million, list_per_million=listed, tenant=tenant, bucket=bucket)
    row = focus_row(usage, {}, "Tokenpath operator")
    assert lint_focus([row]) == []
    assert Fraction(row["BilledCost"]) == Fraction(per_million) * tokens / 1_000_000
    assert list(csv.DictReader(io.StringIO(focus_csv([row]), newline=""))) == [row]


@pytest.mark.parametrize(
    "tenant", ["=1+1", '=cmd|"/c calc"!A1', "+1", "@sum", "a,b", 'say "hi"', "two\r\nlines", "one\rreturn", "tab\there"]
)
def test_hostile_names_stay_one_cell_of_text(tenant: str) -> None:
    row = focus_row(replace(USAGE, tenant=tenant), {}, "Tokenpath operator")
    (read,) = csv.DictReader(io.StringIO(focus_csv([row]), newline=""))
    assert (read["x_TenantId"], read["SubAccountId"]) == (tenant, tenant)


def test_unpriced_usage_has_no_row() -> None:
    unpriced = replace(USAGE, per_million=None, list_per_million=None)
    assert focus_rows([unpriced, USAGE], TENANTS, "Tokenpath operator") == [GOOD]
    with pytest.raises(ValueError, match="no price"):
        focus_row(unpriced, TENANTS, "Tokenpath operator")


def test_months_are_calendar_months_and_anything_else_is_refused() -> None:
    assert [bound.isoformat() for bound in month_bounds("2026-12")] == ["2026-12-01", "2027-01-01"]
    assert [bound.isoformat() for bound in month_bounds("2024-02")] == ["2024-02-01", "2024-03-01"]
    for month in ("2026-13", "2026-1", "November", "2026-11-30", "0001-01", ""):
        with pytest.raises(ConfigurationError, match="expected YYYY-MM"):
            month_bounds(month)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "focus.csv"
    write_whole(target, "old\r\n")
    write_whole(target, "new\r\n")
    assert target.read_bytes() == b"new\r\n"
    (tmp_path / "taken").mkdir()
    for path in (tmp_path / "absent" / "focus.csv", tmp_path / "taken"):
        with pytest.raises(ConfigurationError, match="--out"):
            write_whole(path, "x")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["focus.csv", "taken"]
