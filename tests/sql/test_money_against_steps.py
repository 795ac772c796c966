"""Tier B against the truth of every step: the modelled cluster knows who used each step, the money knows only what spans tell."""

import json
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from statistics import median

import pytest

from collectors.workload.options import Faults, ReplayOptions, ReplicaOptions, RoutingPolicy
from collectors.workload.replay import replay
from collectors.workload.roofline import roofline
from pipeline.attribution.money import allocate
from pipeline.attribution.scope import Scope
from pipeline.store.client import Store
from schemas.catalog import gpus, models_by_name
from tests.conftest import SHARED
from tests.oracle.money import Attempt, Constants, Held
from tests.sql.gpu_facts import FOREVER, PRICE, S, T, fill

NO_FAULTS = Faults(
    rejected=Decimal(0), blocked=Decimal(0), leaves=Decimal(0), unavailable=Decimal(0), crash=Decimal(0), poisoned=Decimal(0)
)
ENGINE = ReplicaOptions(id="r0", model="llama-3.3-70b", gpus=4)
SMALL = ReplicaOptions(id="r0", model="llama-3.1-8b", gpus=1)
MOONCAKE = SHARED / "data" / "mooncake_conversation.jsonl.gz"


@dataclass(frozen=True)
class Load:
    """What the cluster is made of and how hard it is driven. The trace is the packaged example, or Mooncake's conversations."""

    engine: ReplicaOptions
    speed: int
    replicas: int = 2
    routing: RoutingPolicy = "prefix_aware"
    file: Path | None = None


LOADS = {
    "idle most of the time": Load(ENGINE, 1),
    "busy": Load(ENGINE, 4),
    "full": Load(ENGINE, 10),
    "a small model, busy": Load(SMALL, 4),
    "a small model, full": Load(SMALL, 10),
    "16-bit weights": Load(ENGINE.model_copy(update={"precision": "bf16", "gpus": 8}), 6),
    "many cache misses": Load(ENGINE, 6, routing="round_robin"),
    "small prefill budget": Load(ENGINE.model_copy(update={"prefill_budget_tokens": 1024}), 6),
    "one engine for all": Load(ENGINE, 4, replicas=1),
    "long prompts": Load(ENGINE, 1, replicas=8, routing="round_robin", file=MOONCAKE),
    "long prompts, full": Load(ENGINE, 1, routing="round_robin", file=MOONCAKE),
}


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_shares_of_gpu_time_are_close_to_the_truth_of_the_steps(store: Store, tmp_path: Path, load: Load) -> None:
    """Median error of an attempt at most 10%; the fifth with the most prefill, and that with the most decode, within 15% as a whole."""
    if load.file and not load.file.exists():
        pytest.skip("the public Mooncake trace is not on this machine (../shared/data)")
    engine = load.engine
    fleet = tuple(engine.model_copy(update={"id": f"r{number}"}) for number in range(load.replicas))
    replay(
        ReplayOptions(
            start_ns=T,
            to=(f"file:{tmp_path}/spans",),
            truth_dir=tmp_path / "truth",
            fleet=fleet,
            models=(engine.model,),
            faults=NO_FAULTS,
            file=load.file,
            limit=400,
            example_requests=400,
            routing=load.routing,
            speed=Decimal(load.speed),
            via="bytes",
        ),
        lambda done, total: None,
    )
    requests, attempts = (
        [json.loads(line) for line in (tmp_path / "truth" / f"{name}.jsonl").read_text().splitlines()] for name in ("requests", "attempts")
    )
    tokens = {r["trace_id"]: (r["input_tokens"], r["cached_tokens"], r["output_tokens"]) for r in requests}
    facts = [
        Attempt(
            a["span_id"],
            a["replica"],
            started_ns=a["first_scheduled_ns"],
            first_scheduled_ns=a["first_scheduled_ns"],
            first_token_ns=a["first_token_ns"],
            last_token_ns=a["last_token_ns"],
            input_tokens=tokens[a["trace_id"]][0],
            cached_tokens=tokens[a["trace_id"]][1],
            output_tokens=tokens[a["trace_id"]][2],
        )
        for a in attempts
        if a["first_token_ns"] is not None
    ]
    gpu, model, known = gpus()[engine.gpu], models_by_name()[engine.model], roofline(engine)
    constants = Constants(
        int(gpu.flops(engine.precision) * engine.gpus * engine.compute_efficiency),
        int(gpu.hbm_bytes_per_second * engine.gpus * engine.memory_efficiency),
        engine.prefill_budget_tokens,
        model.flop_per_token,
        known.weight_bytes,
        model.kv_bytes_per_token,
        model.attention_flop_per_token,
    )
    fill(store, facts, [Held(one.id, "h100", engine.gpus, T - S, FOREVER, constants) for one in fleet], [PRICE])
    end = max(a["last_token_ns"] for a in attempts if a["last_token_ns"]) // (900 * S) * 900 * S + 900 * S
    allocate(store, Scope(7, "c", T // (900 * S) * 900 * S, end, 900 * S, S, 300 * S, 3600 * S))
    got = dict(store.query("SELECT attempt_id, sum(busy_ns) FROM work_ledger WHERE attempt_id != '' GROUP BY attempt_id").rows)
    truth = {a["span_id"]: Fraction(a["gpu_ns_exact"]) for a in attempts}
    assert store.query("SELECT DISTINCT toString(tier) FROM work_ledger WHERE attempt_id != ''").rows == (("B",),)

    errors = [abs(got[name] / float(exact) - 1) for name, exact in truth.items()]
    by_prefill = sorted(facts, key=lambda a: Fraction((a.input_tokens or 0) - (a.cached_tokens or 0), a.output_tokens or 1))
    fifth = len(facts) // 5
    decode_heavy, prefill_heavy = (
        sum(got[a.attempt_id] for a in part) / float(sum(truth[a.attempt_id] for a in part))
        for part in (by_prefill[:fifth], by_prefill[-fifth:])
    )
    print(f"median error {median(errors):.1%}, prefill-heavy fifth {prefill_heavy:.3f}, decode-heavy fifth {decode_heavy:.3f}")
    assert median(errors) <= 0.1
    assert 0.85 <= prefill_heavy <= 1.15 and 0.85 <= decode_heavy <= 1.15
    whole = sum(got.values()) / float(sum(truth.values()))
    assert 0.98 < whole < 1.02
