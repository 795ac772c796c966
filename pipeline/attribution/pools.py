"""Money of the pools besides GPU time: power, network, KV storage, gateways, overhead. Orders statements (sql/money/3*.sql).

    pool_prices -> work_tariffs -> work_pools (power) -> work_weights -> work_pools (the others) -> work_shares of all of them

Runs after work_pools and work_shares hold GPU time, and only where the price book has a row for another pool.
"""

from typing import Any

from pipeline.attribution.tariffs import stretches
from pipeline.statements import statement
from pipeline.store.client import Store

SQL = "pipeline.attribution.sql.money"
SCRATCH = ("work_tariffs", "work_weights")


def allocate_pools(store: Store, parameters: dict[str, Any]) -> None:
    """Adds the other pools to work_pools and work_shares. `parameters`: those of the run, with `until_ns`."""
    if not store.query(statement(SQL, "30_any_pool_price"), parameters).scalar():
        return
    for table in SCRATCH:
        store.command("TRUNCATE TABLE {table:Identifier}", {"table": table})
    store.insert_rows("work_tariffs", _tariffs(store, parameters))
    for name in ("32_power", "33_weights", "34_pools", "35_shares_power", "36_shares"):
        store.command(statement(SQL, name), parameters)


def _tariffs(store: Store, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of work_tariffs: each price of power, once per stretch of the run in which its hours hold."""
    return [
        {"price_id": price_id, "currency": currency, "atoms": atoms, "replicas": replicas, "gpus": gpus, "from_ns": a, "to_ns": b}
        for price_id, currency, atoms, replicas, gpus, time_zone, hours, from_ns, to_ns in store.query(
            statement(SQL, "31_tariffs"), parameters
        ).rows
        for a, b in stretches(max(from_ns, parameters["from_ns"]), min(to_ns, parameters["until_ns"]), time_zone, frozenset(hours))
    ]
