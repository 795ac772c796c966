"""Rows of the attributed tables for tests: what a test does not name has the column's default."""

import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeline.attribution.scope import Scope
from pipeline.store.client import Store

WINDOW_S = 900
FIRST = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
RUN = 1_764_500_000_000_000_001
CONFIG = "c0ffee"
_numbers = itertools.count(1)


def window(number: int) -> datetime:
    return FIRST + timedelta(seconds=WINDOW_S * number)


def text(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")


def ns(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000_000


def scope(windows: int, run_id: int = RUN) -> Scope:
    second = 1_000_000_000
    return Scope(run_id, CONFIG, ns(FIRST), ns(window(windows)), WINDOW_S * second, second, 300 * second, 3600 * second)


def request(number: int, tenant: str, model: str, outcome: str = "useful", run_id: int = RUN, **columns: Any) -> dict[str, Any]:
    """A request of window `number`."""
    return {
        "window_from": text(window(number)), "run_id": run_id, "request_id": f"r{next(_numbers):08}", "tenant": tenant, "model": model,
        "outcome": outcome, "started_at": text(window(number)), "attempts": 1, **columns,
    }  # fmt: skip


def attempt(number: int, tenant: str, model: str, outcome: str = "useful", run_id: int = RUN, **columns: Any) -> dict[str, Any]:
    return {
        "window_from": text(window(number)), "run_id": run_id, "request_id": f"r{next(_numbers):08}", "attempt_id": f"a{next(_numbers):08}",
        "attempt_no": 1, "tenant": tenant, "model": model, "outcome": outcome, "started_at": text(window(number)), **columns,
    }  # fmt: skip


def ledger(number: int, tenant: str, model: str, atoms: int, run_id: int = RUN, **columns: Any) -> dict[str, Any]:
    return {
        "window_from": text(window(number)), "run_id": run_id, "pool": "gpu", "resource": "replica-0", "tenant": tenant, "model": model,
        "class": "useful", "payer": "tenant", "atoms": atoms, "busy_ns": 0, **columns,
    }  # fmt: skip


def pool(number: int, resource: str, atoms: int, run_id: int = RUN, **columns: Any) -> dict[str, Any]:
    return {
        "window_from": text(window(number)), "run_id": run_id, "pool": "gpu", "resource": resource, "currency": "USD", "priced": 1,
        "atoms": atoms, "busy_atoms": atoms, **columns,
    }  # fmt: skip


def counted(number: int, counted: int, accounted: int, quantity: str = "prompt_tokens", run_id: int = RUN) -> dict[str, Any]:
    place = {"window_from": text(window(number)), "run_id": run_id, "replica": "replica-0"}
    return {**place, "quantity": quantity, "counted": counted, "accounted": accounted}


def left_out(number: int, spans: int, principal: str = "tenant/acme", reason: str = "reused_id", run_id: int = RUN) -> dict[str, Any]:
    return {"window_from": text(window(number)), "run_id": run_id, "principal": principal, "reason": reason, "spans": spans}


def saving(number: int, tenant: str, model: str, cached_tokens: int, atoms: int) -> dict[str, Any]:
    return {"window_from": text(window(number)), "tenant": tenant, "model": model, "cached_tokens": cached_tokens, "atoms": atoms}


def published(number: int, run_id: int = RUN, recorded_at: datetime = FIRST + timedelta(hours=5), **columns: Any) -> dict[str, Any]:
    return {
        "run_id": run_id, "window_from": text(window(number)), "window_to": text(window(number + 1)),
        "state": "published", "kind": "closed",
        "method": "gpu-step-time-v1", "useful_policy": "useful-v1", "config_hash": CONFIG,
        "recorded_at": recorded_at.strftime("%Y-%m-%d %H:%M:%S.%f"), **columns,
    }  # fmt: skip


def price(model: str, bucket: str, per_million: str, tenant: str = "", **columns: Any) -> dict[str, Any]:
    return {
        "config_hash": CONFIG, "sku": model, "model": model, "tenant": tenant, "bucket": bucket, "currency": "USD",
        "usd_per_million_tokens": per_million, "from_ns": 0, "to_ns": 2**63 - 1, **columns,
    }  # fmt: skip


def billable(outcome: str, bucket: str) -> dict[str, Any]:
    return {"config_hash": CONFIG, "outcome": outcome, "bucket": bucket}


def insert(store: Store, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Makes the scratch table of savings first where no migration did."""
    store.command(
        "CREATE TABLE IF NOT EXISTS work_savings (window_from DateTime('UTC'), tenant LowCardinality(String), model LowCardinality(String),"
        " cached_tokens UInt64, atoms Int128) ENGINE = MergeTree ORDER BY (window_from, tenant, model)"
    )
    for table, table_rows in tables.items():
        store.insert_rows(table, table_rows)
