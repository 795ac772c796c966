"""Small facts about attempts, replicas and prices, as rows of the tables that money is computed from."""

from collections.abc import Sequence
from typing import Any

from pipeline.attribution.scope import Scope
from pipeline.store.client import Store
from tests.oracle.money import Attempt, Constants, Held, Price

S = 1_000_000_000
T = 1_793_577_600 * S  # 2026-11-02T00:00:00Z
WINDOW, WINDOWS, FOREVER = 60 * S, 3, 2**63 - 1
LLAMA = Constants(4 * 10**15, 9 * 10**12, 2048, 140 * 10**9, 70 * 10**9, 160_000, 2_600_000)


def scope(slot_ns: int = S, windows: int = WINDOWS) -> Scope:
    return Scope(7, "c", T, T + windows * WINDOW, WINDOW, slot_ns, 300 * S, 3600 * S)


def stamp(ns: int | None) -> str | None:
    return None if ns is None else f"{ns // S}.{ns % S:09d}"


def row(a: Attempt) -> dict[str, Any]:
    return {
        "window_from": a.started_ns // WINDOW * WINDOW // S,
        "run_id": 7,
        "request_id": f"request of {a.attempt_id}",
        "attempt_id": a.attempt_id,
        "attempt_no": 1,
        "tenant": a.tenant,
        "model": a.model,
        "started_at": stamp(a.started_ns),
        "ended_at": stamp(a.ended_ns),
        "replica": a.replica,
        "legs": [{"replica": r, "phase": p, "first_at": stamp(x), "last_at": stamp(y)} for r, p, x, y in a.legs],
        "first_scheduled_at": stamp(a.first_scheduled_ns),
        "first_token_at": stamp(a.first_token_ns),
        "last_token_at": stamp(a.last_token_ns),
        "input_tokens": a.input_tokens,
        "input_cache_read_tokens": a.cached_tokens,
        "output_tokens": a.output_tokens,
        "recompute_tokens": a.recompute_tokens,
        "rejected_draft_tokens": a.rejected_draft_tokens,
        "expected_hit_tokens": a.expected_hit_tokens,
        "best_hit_tokens": a.best_hit_tokens,
        "delivered_tokens": a.delivered_tokens,
        "outcome": a.outcome,
        "tenant_source": "gateway",
        "usage_source": "engine",
        "usage_state": "reported",
        "delivery": "assumed",
    }


def fill(store: Store, attempts: Sequence[Attempt], inventory: Sequence[Held], prices: Sequence[Price]) -> None:
    models: dict[Constants | None, str] = {c: f"model {n}" for n, c in enumerate({h.constants: 0 for h in inventory})}
    store.insert_rows("work_attempts", [row(a) for a in attempts])
    store.insert_rows(
        "inventory",
        [
            {
                "config_hash": "c",
                "replica": h.replica,
                "model": models[h.constants],
                "gpu": h.gpu,
                "gpus": h.gpus,
                "precision": "fp8",
                "flops_per_second": h.constants.flops_per_second if h.constants else 0,
                "bytes_per_second": h.constants.bytes_per_second if h.constants else 0,
                "prefill_budget_tokens": h.constants.prefill_budget_tokens if h.constants else 0,
                "from_ns": h.from_ns,
                "to_ns": h.to_ns,
            }
            for h in inventory
        ],
    )
    store.insert_rows(
        "model_constants",
        [
            {
                "config_hash": "c",
                "model": name,
                "precision": "fp8",
                "flop_per_token": c.flop_per_token,
                "attention_flop_per_token": c.attention_flop_per_token,
                "weight_bytes": c.weight_bytes,
                "kv_bytes_per_token": c.kv_bytes_per_token,
            }
            for c, name in models.items()
            if c
        ],
    )
    store.insert_rows(
        "gpu_prices",
        [
            {
                "config_hash": "c",
                "price_id": p.price_id,
                "gpu": p.gpu,
                "currency": "USD",
                "atoms_per_gpu_hour": str(p.atoms_per_gpu_hour),
                "from_ns": p.from_ns,
                "to_ns": p.to_ns,
            }
            for p in prices
        ],
    )


def served(name: str, replica: str, start: int, first: int, last: int, n_in: int | None, n_out: int | None, **more: Any) -> Attempt:
    return Attempt(
        name,
        replica,
        started_ns=T + start,
        ended_ns=T + last,
        first_scheduled_ns=T + start,
        first_token_ns=T + first,
        last_token_ns=T + last,
        input_tokens=n_in,
        output_tokens=n_out,
        **more,
    )


HELD = Held("r0", "h100", 8, T - 86_400 * S, FOREVER, LLAMA)
REPLICAS = ("r0", "r1", "r2", "r3")
PRICE = Price("p", "h100", 2_490_000_000_000, 0, FOREVER)
