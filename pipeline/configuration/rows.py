"""A checked configuration as rows of the config tables. Pure; nothing here knows a store."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from typing import Any, get_args

from schemas.catalog import Model, Precision, gpus, models_by_name
from schemas.metric_rules import MetricRule
from schemas.pricing import PriceBook
from schemas.profile_rules import Rule
from schemas.settings import AttributionSettings
from schemas.tenancy import Inventory, Replica, Slos, Tenants

Row = dict[str, Any]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
DIVIDES_TIME = {"window_seconds", "slot_ms", "grace_seconds", "max_attempt_seconds"}


def rows(
    inventory: Inventory, prices: PriceBook, tenants: Tenants, slos: Slos, rules: Sequence[Rule], metric_rules: Sequence[MetricRule]
) -> dict[str, list[Row]]:
    """Table -> rows without config_hash. Decimals and atoms are texts, so that they stay exact on their way."""
    tables = {
        "inventory": [_replica(replica, inventory) for replica in inventory.replica],
        "gpu_prices": list(_gpu_prices(prices)),
        "pool_prices": list(_pool_prices(prices)),
        "token_prices": list(_token_prices(prices)),
        "tenants": [
            {
                "tenant": tenant.id,
                "name": tenant.name or tenant.id,
                "aliases": list(tenant.aliases),
                "billing_account": tenant.billing_account or tenant.id,
                "time_zone": tenant.time_zone,
            }
            for tenant in tenants.tenant
        ],
        "slos": list(_slos(slos)),
        "model_constants": list(_model_constants(inventory)),
        "profile_rules": [asdict(rule) for rule in rules],
        "metric_rules": [asdict(rule) for rule in metric_rules],
        "billable": [{"outcome": outcome.value, "bucket": bucket} for outcome, bucket in prices.billable.pairs()],
    }
    return {table: sorted(content, key=_canonical) for table, content in tables.items()}


def config_hash(tables: dict[str, list[Row]], currency: str, attribution: AttributionSettings) -> str:
    """Hex SHA-256. Equal exactly when the stored rows and the settings that divide time are."""
    content = {"currency": currency, "attribution": attribution.model_dump(include=DIVIDES_TIME), "tables": tables}
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def architectures(inventory: Inventory) -> dict[str, Model]:
    """Every name under which a model with known figures goes: the catalogue's, and the user's own that are `like` one of it."""
    known = dict(models_by_name())
    for own in inventory.model:
        if own.like:
            known.update(dict.fromkeys((own.id, *own.aliases), models_by_name()[own.like]))
    return known


def _replica(replica: Replica, inventory: Inventory) -> Row:
    """FLOP/s and bytes/s of the whole replica as it really runs; both 0 where gpu or model is unknown. So are watts that nobody tells."""
    gpu = gpus().get(replica.gpu)
    flops = bytes_per_second = Fraction(0)
    if gpu is not None and replica.model in architectures(inventory):
        flops = replica.gpus * gpu.flops(replica.precision) * Fraction(replica.efficiency.compute)
        bytes_per_second = replica.gpus * gpu.hbm_bytes_per_second * Fraction(replica.efficiency.memory)
    return {
        "replica": replica.id,
        "match": replica.resource(),
        "model": replica.model,
        "gpu": replica.gpu,
        "gpus": replica.gpus,
        "purchase": replica.purchase,
        "watts_busy": replica.gpus * (replica.watts_busy or (gpu.watts_tdp if gpu else 0)),
        "watts_idle": replica.gpus * (replica.watts_idle or (gpu.watts_idle if gpu else 0) or 0),
        "precision": replica.precision,
        "flops_per_second": int(flops),
        "bytes_per_second": int(bytes_per_second),
        "prefill_budget_tokens": replica.prefill_budget_tokens,
        "reserved_tenant": replica.reserved_for.tenant if replica.reserved_for else "",
        "reserved_gpus": replica.reserved_for.gpus if replica.reserved_for else 0,
        "from_ns": replica.from_ns,
        "to_ns": replica.to_ns,
    }


def _gpu_prices(prices: PriceBook) -> Iterator[Row]:
    for price in prices.gpu_rates:
        yield {
            "price_id": price.id,
            "gpu": price.gpu,
            "purchase": price.purchase,
            "currency": prices.currency,
            "atoms_per_gpu_hour": str(price.atoms_per_gpu_hour),
            "includes": sorted(set(price.includes)),
            "from_ns": price.from_ns,
            "to_ns": price.to_ns,
        }


def _pool_prices(prices: PriceBook) -> Iterator[Row]:
    for rows_of_pool in prices.pools.values():
        for price in rows_of_pool:
            yield {
                "pool": price.pool,
                "resource": price.name,
                "kind": price.label,
                "price_id": price.id,
                "currency": prices.currency,
                "basis": price.basis,
                "atoms": str(price.atoms),
                "replicas": sorted(set(price.replicas)),
                "gpus": sorted(set(price.gpus)),
                "time_zone": price.zone,
                "hours": list(price.local_hours),
                "from_ns": price.from_ns,
                "to_ns": price.to_ns,
            }


def _token_prices(prices: PriceBook) -> Iterator[Row]:
    for price in prices.token:
        for model in price.model:
            for bucket, amount in price.usd_per_million_tokens.items():
                yield {
                    "sku": price.sku,
                    "model": model,
                    "tenant": price.tenant,
                    "bucket": bucket,
                    "currency": prices.currency,
                    "usd_per_million_tokens": _plain(amount),
                    "from_ns": price.from_ns,
                    "to_ns": price.to_ns,
                }


def _plain(amount: Decimal) -> str:
    """One spelling per amount, every digit kept: 2.50 and 2.5 are the same price."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _slos(slos: Slos) -> Iterator[Row]:
    for slo in slos.slo:
        yield {
            "tenant": slo.tenant,
            "model": slo.model,
            "ttft_ns": _ns(slo.ttft_ms),
            "tpot_ns": _ns(slo.tpot_ms),
            "e2e_ns": _ns(slo.e2e_ms),
            "from_ns": slo.from_ns,
            "to_ns": slo.to_ns,
        }


def _ns(milliseconds: Decimal | None) -> int | None:
    return None if milliseconds is None else int(Fraction(milliseconds) * 1_000_000)


def _model_constants(inventory: Inventory) -> Iterator[Row]:
    for name, model in architectures(inventory).items():
        for precision in PRECISIONS:
            yield {
                "model": name,
                "precision": precision,
                "flop_per_token": model.flop_per_token,
                "attention_flop_per_token": model.attention_flop_per_token,
                "weight_bytes": model.weight_bytes(precision),
                "kv_bytes_per_token": model.kv_bytes_per_token,
            }
