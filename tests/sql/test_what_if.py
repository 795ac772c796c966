"""What-if over published windows: read, changed, shown. And held to a cluster that is replayed both ways."""

import io
import json
from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console

from collectors.workload.options import Faults, ReplayOptions, ReplicaOptions
from collectors.workload.replay import ReplaySummary, replay
from pipeline.attribution.job import run
from pipeline.configuration.versions import load_configuration, store_configuration
from pipeline.errors import CheckFailed
from pipeline.reporting.report import ReportQuery
from pipeline.reporting.what_if_answer import Scenario, answer, render, to_json
from pipeline.store.client import Store
from schemas.settings import AttributionSettings
from tests.conftest import SHARED
from tests.ingest import ingest
from tests.sql import rows

SECOND = 10**9
FOREVER = {"from_ns": 0, "to_ns": 2**63 - 1}
REPLICA = {
    "config_hash": rows.CONFIG, "model": "m", "gpu": "h100-sxm", "gpus": 1, "precision": "fp8", "flops_per_second": 10**12, **FOREVER,
}  # fmt: skip
CONSTANTS = {"config_hash": rows.CONFIG, "model": "m", "precision": "fp8", "flop_per_token": 10**9}
QUERY = ReportQuery(rows.window(0), rows.window(1))


def case(store: Store) -> None:
    """r0 is busy for 90 of 900 s, 4 of them with the prefill of 4,000 tokens; r1 stands idle."""
    tokens = {"input_tokens": 5000, "input_cache_read_tokens": 1000, "delivered_tokens": 100, "replica": "r0"}
    rows.insert(
        store,
        {
            "inventory": [{**REPLICA, "replica": name} for name in ("r0", "r1")],
            "model_constants": [CONSTANTS],
            "pools": [
                rows.pool(0, "r0", 10**12, capacity_ns=900 * SECOND, busy_ns=90 * SECOND, idle_ns=810 * SECOND),
                rows.pool(0, "r1", 10**12, capacity_ns=900 * SECOND, idle_ns=900 * SECOND),
            ],
            "attempts": [rows.attempt(0, "acme", "m", best_hit_tokens=3000, expected_hit_tokens=1000, **tokens)],
            "requests": [
                rows.request(0, "acme", "m", "late", ttft_ns=2 * SECOND, streamed=1, delivered_tokens=100, slo_ttft=0),
                rows.request(0, "acme", "m", ttft_ns=SECOND // 2, streamed=1, delivered_tokens=50, slo_ttft=1),
            ],
            "runs": [rows.published(0)],
        },
    )


def test_everything_at_once_by_hand(store: Store) -> None:
    """Affinity: 2,000 tokens fewer, 2 s. One replica is enough: half the cost. A TTFT of 3 s lets the late answer count."""
    case(store)
    found = answer(store, QUERY, Scenario(perfect_affinity=True, remove_idle=True, ttft_ms=Decimal(3000)))
    then, now = found.then, found.now
    assert (now.fleet.busy_ns, then.fleet.busy_ns) == (90 * SECOND, 88 * SECOND)
    assert (now.fleet.cached_tokens, then.fleet.cached_tokens) == (1000, 3000)
    assert (now.atoms, then.atoms) == (2 * 10**12, 10**12)
    assert (now.useful_tokens, then.useful_tokens, now.in_time, then.in_time) == (50, 150, 1, 2)
    assert dict(found.replicas) == {"m": (1, 2)} and found.told_ratio == 1.0
    document = json.loads(to_json(found))
    assert (document["schema"], document["now"]["cost"], document["then"]["cost"]) == ("tokenpath.what-if/1", "2", "1")
    assert document["then"]["cost_as_busy_as_now"] == "1.955555555555"  # 88/90 of 2
    console = Console(file=io.StringIO(), width=120)
    render(found, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "m: 1 of 2 replicas are needed" in shown and "20.0%" in shown and "60.0%" in shown
    assert len(found.assumptions) == 5 and all(line[:40] in shown for line in found.assumptions)


def test_a_tighter_objective_makes_useful_answers_late(store: Store) -> None:
    case(store)
    found = answer(store, QUERY, Scenario(ttft_ms=Decimal(100)))
    assert (found.then.useful_tokens, found.then.in_time) == (0, 0)


def test_a_range_without_windows_is_said(store: Store) -> None:
    with pytest.raises(CheckFailed, match="no replica"):
        answer(store, QUERY, Scenario(remove_idle=True))


MOONCAKE = SHARED / "data" / "mooncake_conversation.jsonl.gz"
START_NS = rows.ns(rows.FIRST)
MODEL = "llama-3.3-70b"
FLEET = tuple(ReplicaOptions(id=f"r{number}", model=MODEL, gpus=4) for number in range(8))
NO_FAULTS = Faults(**dict.fromkeys(("rejected", "blocked", "leaves", "unavailable", "crash", "poisoned"), Decimal(0)))


def replayed(routing: str, to: Path) -> ReplaySummary:
    return replay(
        ReplayOptions(
            file=MOONCAKE, start_ns=START_NS, to=(f"file:{to}",), via="bytes", fleet=FLEET, models=(MODEL,), faults=NO_FAULTS,
            routing=routing, batch_spans=5000,
        ),
        lambda done, total: None,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not MOONCAKE.exists(), reason="the public Mooncake trace is not on this machine (../shared/data)")
def test_the_switch_to_prefix_aware_routing_is_predicted_from_round_robin(store: Store, tmp_path: Path) -> None:
    """12,031 conversations over 8 replicas, replayed both ways: the prediction made from one is held to what the other did."""
    before, after = (replayed(routing, tmp_path / routing) for routing in ("round_robin", "prefix_aware"))
    ingest(store, [file.read_bytes() for file in sorted((tmp_path / "round_robin").glob("*.binpb"))], received_ns=START_NS + 7200 * SECOND)
    folder = tmp_path / "config"
    folder.mkdir()
    since = "from = 2026-01-01T00:00:00Z\n"
    (folder / "inventory.toml").write_text(
        "".join(f'[[replica]]\nid = "{one.id}"\nmodel = "{MODEL}"\ngpu = "h100-sxm"\ngpus = 4\nprecision = "fp8"\n{since}' for one in FLEET)
    )
    (folder / "prices.toml").write_text(f'[[gpu]]\nid = "h100"\ngpu = "h100-sxm"\nusd_per_gpu_hour = "2.49"\n{since}')
    config_hash = store_configuration(store, load_configuration(folder), rows.FIRST)
    end_ns = START_NS + 8 * 900 * SECOND
    run(store, AttributionSettings(), config_hash, START_NS, end_ns, clock=lambda: end_ns + 3600 * SECOND)

    found = answer(store, ReportQuery(rows.window(0), rows.window(8)), Scenario(perfect_affinity=True))
    assert found.now.fleet.input_tokens == before.input_tokens
    assert found.now.fleet.cached_tokens == before.cached_tokens
    busy_ns = {
        name: sum(summary.busy_ratio_by_replica.values()) * (summary.to_ns - summary.from_ns)
        for name, summary in (("now", before), ("then", after))
    }
    assert found.now.fleet.busy_ns == pytest.approx(busy_ns["now"], rel=0.02)
    assert found.then.fleet.busy_ns == pytest.approx(busy_ns["then"], rel=0.1)
    assert found.then.fleet.cached_tokens == pytest.approx(after.cached_tokens, rel=0.1)
    assert found.then.fleet.cached_tokens > 2.5 * found.now.fleet.cached_tokens
