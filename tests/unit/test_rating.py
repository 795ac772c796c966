"""Rating is exact, half open in time, and never makes an unpriced token free."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.billing.rating import Metered, Price, PriceBook, rate
from pipeline.errors import ConfigurationError

BUCKETS = ("input_uncached", "output_text")
EVERYTHING = frozenset({("useful", "all"), ("aborted", "output_text")})

prices = st.decimals(min_value=0, max_value=10**9, places=12)
metered_rows = st.builds(
    Metered,
    window_from_ns=st.sampled_from([0, 900, 1800]),
    tenant=st.sampled_from(["acme", "bolt"]),
    model=st.sampled_from(["llama", "mystery"]),
    outcome=st.sampled_from(["useful", "aborted", "failed"]),
    bucket=st.sampled_from(BUCKETS),
    tokens=st.integers(0, 2**64 - 1),
)


def price(per_million: str | Decimal, **more: object) -> Price:
    made = Price("llama", "llama", "", "output_text", "USD", Decimal(per_million), 0, 2**63 - 1)
    return replace(made, **more)  # type: ignore[arg-type]


def book(*prices: Price, billable: frozenset[tuple[str, str]] = EVERYTHING) -> PriceBook:
    return PriceBook("v1", "USD", prices, billable)


def one(at_ns: int, tenant: str = "acme", model: str = "llama", outcome: str = "useful", tokens: int = 1_000_000) -> Metered:
    return Metered(at_ns, tenant, model, outcome, "output_text", tokens)


@settings(max_examples=60)
@given(rows=st.lists(metered_rows, max_size=30), listed=prices, own=prices, seed=st.randoms())
def test_every_token_is_metered_once_and_every_amount_is_exact(rows: list[Metered], listed: Decimal, own: Decimal, seed: object) -> None:
    priced = book(
        *(price(listed, bucket=bucket) for bucket in BUCKETS), *(price(own, bucket=bucket, tenant="bolt", sku="deal") for bucket in BUCKETS)
    )
    rated = rate(rows, priced)
    shuffled = list(rows)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rate(shuffled, priced) == rated

    assert sum(row.metered_tokens for row in rated) == sum(row.tokens for row in rows)
    assert sum(row.useful_tokens for row in rated) == sum(row.tokens for row in rows if row.outcome == "useful")
    billable = [row for row in rows if row.outcome == "useful" or (row.outcome == "aborted" and row.bucket == "output_text")]
    assert sum(row.billable_tokens for row in rated) == sum(row.tokens for row in billable)

    expected = sum(
        (Fraction(own if row.tenant == "bolt" else listed) * row.tokens / 1_000_000 for row in billable if row.model == "llama"),
        Fraction(0),
    )
    assert sum((Fraction(row.amount) for row in rated if row.amount is not None), Fraction(0)) == expected
    for row in rated:
        assert (row.amount is None) == (row.model == "mystery") == (row.per_million is None)
        assert row.amount is None or -int(row.amount.normalize().as_tuple().exponent) <= 18


@pytest.mark.parametrize(("at_ns", "amount"), [(99, None), (100, "2"), (199, "2"), (200, "3"), (299, "3"), (300, None)])
def test_the_start_of_the_window_decides_and_prices_are_half_open(at_ns: int, amount: str | None) -> None:
    (rated,) = rate([one(at_ns)], book(price("2", from_ns=100, to_ns=200), price("3", from_ns=200, to_ns=300)))
    assert rated.amount == (None if amount is None else Decimal(amount))


def test_a_tenants_own_price_goes_first_and_the_list_price_stands_beside_it() -> None:
    priced = book(price("2.40"), price("2.00", tenant="acme", sku="deal", from_ns=100))
    before, after, other = rate([one(0), one(100), one(100, "bolt")], priced)
    assert (before.amount, before.sku, before.list_amount) == (Decimal("2.40"), "llama", Decimal("2.40"))
    assert (after.amount, after.sku, after.list_amount) == (Decimal("2.00"), "deal", Decimal("2.40"))
    assert (other.tenant, other.amount) == ("bolt", Decimal("2.40"))


def test_a_negotiated_price_without_a_list_price_has_no_list_amount() -> None:
    (rated,) = rate([one(0)], book(price("2", tenant="acme")))
    assert (rated.amount, rated.list_amount) == (Decimal(2), None)


def test_tokens_that_are_not_billable_cost_nothing_where_there_is_a_price_and_stay_unpriced_where_there_is_none() -> None:
    known, unknown = rate([one(0, outcome="failed"), one(0, model="mystery", outcome="failed")], book(price("2")))
    assert (known.billable_tokens, known.amount) == (0, 0)
    assert (unknown.billable_tokens, unknown.amount) == (0, None)


def test_no_amount_passes_through_a_float() -> None:
    (rated,) = rate([one(0, tokens=2**64 - 1)], book(price("0.000000000001")))
    assert rated.amount == Decimal("18.446744073709551615")


def test_a_book_with_two_prices_for_one_moment_is_refused_and_says_which() -> None:
    with pytest.raises(ConfigurationError, match="llama output_text for everyone overlap from 1970-01-01: early and late"):
        book(price("1", sku="early", to_ns=200), price("2", sku="late", from_ns=199))
    book(price("1", to_ns=200), price("2", from_ns=200), price("3", tenant="acme"))


def test_a_book_of_two_currencies_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="EUR"):
        book(price("1", currency="EUR"))
