"""Tier B against the truth of every step: the modelled cluster knows who used each step, the money knows only what spans tell."""

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from statistics import median

import pytest

from collectors.workload.options import Faults, ReplayOptions, ReplicaOptions
from collectors.workload.replay import replay
from collectors.workload.roofline import roofline
from pipeline.attribution.money import allocate
from pipeline.attribution.scope import Scope
from pipeline.store.client import Store
from schemas.catalog import gpus, models_by_name
from tests.oracle.money import Attempt, Constants, Held
from tests.sql.gpu_facts import FOREVER, PRICE, S, T, fill

NO_FAULTS = Faults(
    rejected=Decimal(0), blocked=Decimal(0), leaves=Decimal(0), unavailable=Decimal(0), crash=Decimal(0), poisoned=Decimal(0)
)
ENGINE = ReplicaOptions(id="r0", model="llama-3.3-70b", gpus=4)


@pytest.mark.parametrize("speed", [1, 4, 10])
def test_shares_of_gpu_time_are_close_to_the_truth_of_the_steps(store: Store, tmp_path: Path, speed: int) -> None:
    replay(
        ReplayOptions(
            start_ns=T,
            to=(f"file:{tmp_path}/spans",),
            truth_dir=tmp_path / "truth",
            fleet=(ENGINE, ENGINE.model_copy(update={"id": "r1"})),
            faults=NO_FAULTS,
            example_requests=400,
            speed=Decimal(speed),
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
    ]
    gpu, model, known = gpus()[ENGINE.gpu], models_by_name()[ENGINE.model], roofline(ENGINE)
    constants = Constants(
        int(gpu.flops("fp8") * 4 * ENGINE.compute_efficiency),
        int(gpu.hbm_bytes_per_second * 4 * ENGINE.memory_efficiency),
        ENGINE.prefill_budget_tokens,
        model.flop_per_token,
        known.weight_bytes,
        model.kv_bytes_per_token,
    )
    fill(store, facts, [Held(name, "h100", 4, T - S, FOREVER, constants) for name in ("r0", "r1")], [PRICE])
    end = max(a["last_token_ns"] for a in attempts) // (900 * S) * 900 * S + 900 * S
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
    assert median(errors) < 0.15
    # At speed 10 the engines are full: decode is spread evenly over an answer, though prefills of others slow parts of it.
    assert 0.78 < prefill_heavy < 1.15 and 0.9 < decode_heavy < 1.2
    whole = sum(got.values()) / float(sum(truth.values()))
    assert 0.98 < whole < 1.02
