"""Columns and words of FOCUS 1.2 Cost and Usage, as far as this export uses them (specification of the FinOps Foundation, CC-BY-4.0)."""

import re

# Mandatory in 1.2; the flag says whether a cell may be empty.
MANDATORY: dict[str, bool] = {
    "BilledCost": False,
    "BillingAccountId": False,
    "BillingAccountName": True,
    "BillingCurrency": False,
    "BillingPeriodEnd": False,
    "BillingPeriodStart": False,
    "ChargeCategory": False,
    "ChargeClass": True,
    "ChargeDescription": True,
    "ChargePeriodEnd": False,
    "ChargePeriodStart": False,
    "ContractedCost": False,
    "EffectiveCost": False,
    "InvoiceIssuerName": False,
    "ListCost": False,
    "PricingQuantity": True,
    "PricingUnit": True,
    "ProviderName": False,
    "PublisherName": False,
    "ServiceCategory": False,
    "ServiceName": False,
}
# Conditional and recommended ones that apply: usage is measured, unit prices are published and negotiated, tenants are sub accounts.
# InvoiceId is null until there are invoices. The official validator (focus-validator 2.2.1) stumbles where the PricingCurrency columns
# or CommitmentDiscountStatus are absent, so they are there: the first repeat the billing currency, the last is null.
OPTIONAL = (
    "ChargeFrequency", "CommitmentDiscountStatus", "ConsumedQuantity", "ConsumedUnit", "ContractedUnitPrice", "InvoiceId",
    "ListUnitPrice", "PricingCategory", "PricingCurrency", "PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost",
    "PricingCurrencyListUnitPrice",
    "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName",
)  # fmt: skip
CUSTOM = ("x_ModelId", "x_PriceBookVersion", "x_TenantId", "x_UsefulTokens")
COLUMNS = (*sorted((*MANDATORY, *OPTIONAL)), *CUSTOM)

COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
NUMBERS = (*COSTS, "PricingQuantity", "ConsumedQuantity", "ContractedUnitPrice", "ListUnitPrice")
# Equal to its partner while prices and bills are in one currency.
REPEATED = {
    "PricingCurrency": "BillingCurrency",
    "PricingCurrencyContractedUnitPrice": "ContractedUnitPrice",
    "PricingCurrencyEffectiveCost": "EffectiveCost",
    "PricingCurrencyListUnitPrice": "ListUnitPrice",
}
PRICES = ("ContractedUnitPrice", "ListUnitPrice")
DATES = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")

ENUMS: dict[str, frozenset[str]] = {
    "ChargeCategory": frozenset({"Usage", "Purchase", "Tax", "Credit", "Adjustment"}),
    "ChargeClass": frozenset({"", "Correction"}),
    "ChargeFrequency": frozenset({"One-Time", "Recurring", "Usage-Based"}),
    "PricingCategory": frozenset({"", "Standard", "Dynamic", "Committed", "Other"}),
    "ServiceCategory": frozenset({"AI and Machine Learning"}),
    "ServiceSubcategory": frozenset(
        {"AI Platforms", "Bots", "Generative AI", "Machine Learning", "Natural Language Processing", "Other (AI and Machine Learning)"}
    ),
    "PricingUnit": frozenset({"", "1000000 Tokens"}),
    "ConsumedUnit": frozenset({"", "Tokens"}),
}

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-([0-2]\d|3[01])T00:00:00Z")
CURRENCY = re.compile(r"[A-Z]{3}")
CUSTOM_NAME = re.compile(r"x_([A-Z][a-z]+)+")

TOKENS_PER_UNIT = 1_000_000
PRICING_UNIT, CONSUMED_UNIT = "1000000 Tokens", "Tokens"

METERS: dict[str, str] = {
    "input_uncached": "Input Tokens",
    "input_cache_read": "Cache Read Input Tokens",
    "input_cache_write": "Cache Write Input Tokens",
    "output_text": "Output Tokens",
    "output_reasoning": "Reasoning Output Tokens",
}
PRICE_DETAILS: dict[str, dict[str, str]] = {
    "input_uncached": {"x_TokenDirection": "Input", "x_TokenCacheAction": "Uncached"},
    "input_cache_read": {"x_TokenDirection": "Input", "x_TokenCacheAction": "Read"},
    "input_cache_write": {"x_TokenDirection": "Input", "x_TokenCacheAction": "Write"},
    "output_text": {"x_TokenDirection": "Output"},
    "output_reasoning": {"x_TokenDirection": "Output"},
}
