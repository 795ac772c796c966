"""Rollups of one run: what readers sum instead of requests and ledger rows. Orders statements; the SQL and `rate` do the work."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pipeline.attribution import blame
from pipeline.attribution.scope import Scope
from pipeline.billing.rating import Metered, Price, PriceBook, Rated, rate
from pipeline.statements import statement
from pipeline.store.client import Store

SQL = "pipeline.attribution.sql.rollups"

# In this order: 41 shares out what 40 wrote.
_INSERTS = ("40_unallocated_windows", "41_tenant_windows", "42_latency_windows", "47_counted_tokens")


def roll_up(store: Store, scope: Scope) -> None:
    """Writes unallocated_windows, tenant_windows, latency_windows, leak_windows, baselines, counted_tokens and rated_windows of the run.

    Reads its rows of requests, attempts and ledger, the scratch tables work_attempts, work_savings, work_baselines and work_measures, and
    the price book `scope.config_hash`. Once per run: a second call would write the rows again.
    """
    parameters = scope.parameters()
    for name in _INSERTS:
        store.command(statement(SQL, name), parameters)
    blame.roll_up(store, scope)
    metered = [Metered(*row) for row in store.query(statement(SQL, "43_metered"), parameters).rows]
    if metered:
        store.insert_rows(
            "rated_windows", (_row(scope.run_id, rated) for rated in rate(metered, read_price_book(store, scope.config_hash)))
        )


def read_price_book(store: Store, config_hash: str) -> PriceBook:
    """The price book of one configuration version. One without token prices leaves everything unpriced."""
    parameters = {"config_hash": config_hash}
    prices = tuple(Price(*row) for row in store.query(statement(SQL, "44_token_prices"), parameters).rows)
    billable = frozenset((str(outcome), str(bucket)) for outcome, bucket in store.query(statement(SQL, "45_billable"), parameters).rows)
    currency = store.query(statement(SQL, "46_currency"), parameters).scalar() or (prices[0].currency if prices else "")
    return PriceBook(version=config_hash, currency=currency, prices=prices, billable=billable)


def _row(run_id: int, rated: Rated) -> dict[str, Any]:
    return {
        "window_from": datetime.fromtimestamp(rated.window_from_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "run_id": run_id,
        "tenant": rated.tenant,
        "model": rated.model,
        "bucket": rated.bucket,
        "sku": rated.sku,
        "price_version": rated.price_version,
        "currency": rated.currency,
        "metered_tokens": rated.metered_tokens,
        "billable_tokens": rated.billable_tokens,
        "useful_tokens": rated.useful_tokens,
        "usd_per_million_tokens": _text(rated.per_million),
        "list_usd_per_million_tokens": _text(rated.list_per_million),
        "amount": _text(rated.amount),
        "list_amount": _text(rated.list_amount),
    }


def _text(number: Decimal | None) -> str | None:
    return None if number is None else format(number, "f")
