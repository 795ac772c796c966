"""Rating: metered tokens times the price book. Pure and exact: integers and Decimal, never a float.

A price per million with at most 12 places times a whole number of tokens has at most 18 places, so every amount fits
`Decimal(38, 18)` unrounded. Rounding happens once, on an invoice.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from itertools import pairwise

from pipeline.errors import ConfigurationError

TOKENS_PER_PRICE = 1_000_000
ALL_BUCKETS = "all"
LIST_PRICE_TENANT = ""
_DIGITS = 80  # far beyond UInt64 tokens times a Decimal(38, 12) price


@dataclass(frozen=True, slots=True)
class Metered:
    """Tokens of one bucket that ended in one outcome. `window_from_ns` is the window of the request, unix ns."""

    window_from_ns: int
    tenant: str
    model: str
    outcome: str
    bucket: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a million tokens in `[from_ns, to_ns)`. Tenant '' is the list price."""

    sku: str
    model: str
    tenant: str
    bucket: str
    currency: str
    per_million: Decimal
    from_ns: int
    to_ns: int

    def holds_at(self, at_ns: int) -> bool:
        return self.from_ns <= at_ns < self.to_ns


@dataclass(frozen=True, slots=True)
class PriceBook:
    """One immutable version. Raises ConfigurationError when two prices of one key overlap or mix currencies: no rule would choose."""

    version: str
    currency: str
    prices: tuple[Price, ...]
    billable: frozenset[tuple[str, str]]  # (outcome, bucket); bucket `all` covers every bucket
    _by_key: Mapping[tuple[str, str, str], tuple[Price, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_key: dict[tuple[str, str, str], list[Price]] = defaultdict(list)
        for price in self.prices:
            if price.currency != self.currency:
                raise ConfigurationError(
                    f"price {price.sku}: {price.currency} in a price book of {self.currency}; one book has one currency"
                )
            by_key[price.tenant, price.model, price.bucket].append(price)
        for (tenant, model, bucket), prices in by_key.items():
            prices.sort(key=lambda price: price.from_ns)
            for earlier, later in pairwise(prices):
                if later.from_ns < earlier.to_ns:
                    raise ConfigurationError(
                        f"two prices of {model} {bucket} for {tenant or 'everyone'} overlap from {_day(later.from_ns)}:"
                        f" {earlier.sku} and {later.sku}; end the earlier one where the later begins"
                    )
        object.__setattr__(self, "_by_key", {key: tuple(prices) for key, prices in by_key.items()})

    def price(self, tenant: str, model: str, bucket: str, at_ns: int) -> Price | None:
        """The tenant's own price, else the list price, else None: unpriced."""
        return self._find(tenant, model, bucket, at_ns) or self.list_price(model, bucket, at_ns)

    def list_price(self, model: str, bucket: str, at_ns: int) -> Price | None:
        return self._find(LIST_PRICE_TENANT, model, bucket, at_ns)

    def is_billable(self, outcome: str, bucket: str) -> bool:
        return (outcome, bucket) in self.billable or (outcome, ALL_BUCKETS) in self.billable

    def _find(self, tenant: str, model: str, bucket: str, at_ns: int) -> Price | None:
        return next((price for price in self._by_key.get((tenant, model, bucket), ()) if price.holds_at(at_ns)), None)


@dataclass(frozen=True, slots=True)
class Rated:
    """What one tenant is charged for one bucket of one model in one window. Prices and amounts None: unpriced, never 0."""

    window_from_ns: int
    tenant: str
    model: str
    bucket: str
    sku: str
    price_version: str
    currency: str
    metered_tokens: int
    billable_tokens: int
    useful_tokens: int
    per_million: Decimal | None
    list_per_million: Decimal | None
    amount: Decimal | None
    list_amount: Decimal | None


@dataclass(slots=True)
class _Tokens:
    metered: int = 0
    billable: int = 0
    useful: int = 0


def rate(metered: Iterable[Metered], book: PriceBook) -> list[Rated]:
    """One row per (window, tenant, model, bucket), in that order, whatever the order of the input.

    The start of the window decides which price holds; the tenant's own price goes before the list price.
    """
    sums: dict[tuple[int, str, str, str], _Tokens] = defaultdict(_Tokens)
    for row in metered:
        tokens = sums[row.window_from_ns, row.tenant, row.model, row.bucket]
        tokens.metered += row.tokens
        tokens.useful += row.tokens if row.outcome == "useful" else 0
        tokens.billable += row.tokens if book.is_billable(row.outcome, row.bucket) else 0
    return [_rated(key, sums[key], book) for key in sorted(sums)]


def _rated(key: tuple[int, str, str, str], tokens: _Tokens, book: PriceBook) -> Rated:
    window_from_ns, tenant, model, bucket = key
    price = book.price(tenant, model, bucket, window_from_ns)
    listed = book.list_price(model, bucket, window_from_ns)
    return Rated(
        window_from_ns=window_from_ns,
        tenant=tenant,
        model=model,
        bucket=bucket,
        sku=price.sku if price else "",
        price_version=book.version,
        currency=book.currency,
        metered_tokens=tokens.metered,
        billable_tokens=tokens.billable,
        useful_tokens=tokens.useful,
        per_million=price.per_million if price else None,
        list_per_million=listed.per_million if listed else None,
        amount=amount(price.per_million, tokens.billable) if price else None,
        list_amount=amount(listed.per_million, tokens.billable) if listed else None,
    )


def amount(per_million: Decimal, tokens: int) -> Decimal:
    """Exactly `per_million * tokens / 1,000,000`."""
    with localcontext(prec=_DIGITS):
        return per_million * tokens / TOKENS_PER_PRICE


def _day(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / 1e9, UTC).date().isoformat()
