"""What-if arithmetic, worked out by hand, and the scenarios that are refused."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigurationError
from pipeline.reporting.what_if import Fleet, ReplicaUse, with_gpu, with_hit_ratio, with_perfect_affinity, without_idle
from pipeline.reporting.what_if_answer import Scenario, State
from schemas.catalog import gpus

SECOND = 10**9
# 1,000 tokens/s of prefill: of 10 busy seconds, 4 went to 4,000 uncached tokens and 6 to decoding.
R0 = ReplicaUse(
    replica="r0", model="m", gpu="h100-sxm", gpus=2, precision="fp8", input_tokens=5000, cached_tokens=1000, reachable_tokens=3000,
    busy_ns=10 * SECOND, capacity_ns=40 * SECOND, atoms=400, flop_per_token=10**9, flops_per_second=10**12,
)  # fmt: skip
R1 = replace(R0, replica="r1", input_tokens=1000, cached_tokens=0, reachable_tokens=0, busy_ns=2 * SECOND)
FLEET = Fleet((R0, R1), {"m": Fraction(12, 10)})


def test_perfect_affinity_saves_the_prefill_of_what_any_replica_had() -> None:
    then = with_perfect_affinity(FLEET)
    assert [one.cached_tokens for one in then.replicas] == [3000, 0]
    assert [one.busy_ns / SECOND for one in then.replicas] == [8, 2]
    assert then.peaks == {"m": Fraction(10, 10)}


@pytest.mark.parametrize(
    ("ratio", "cached", "busy_s"), [("1", [5000, 1000], [6, 1]), ("0", [0, 0], [11, 2]), ("0.5", [2600, 400], [8.4, 1.6])]
)
def test_another_hit_ratio_moves_every_replica_by_its_part(ratio: str, cached: list[int], busy_s: list[float]) -> None:
    then = with_hit_ratio(FLEET, Fraction(ratio))
    assert [one.cached_tokens for one in then.replicas] == cached
    assert [one.busy_ns / SECOND for one in then.replicas] == pytest.approx(busy_s)


def test_prefill_never_takes_more_than_the_busy_time() -> None:
    busier = replace(R0, input_tokens=50_000)
    assert busier.prefill_ns == 10 * SECOND
    assert busier.busy_with_cached(50_000) == 0


def test_another_gpu_scales_prefill_by_flops_and_decode_by_bandwidth() -> None:
    here, there = gpus()["h100-sxm"], gpus()["b200"]
    (then, _) = with_gpu(FLEET, dict(gpus()), there, None, 3 * 10**12).replicas
    prefill = 4 * here.flops("fp8") / there.flops("fp8")
    decode = 6 * here.hbm_bytes_per_second / there.hbm_bytes_per_second
    assert then.busy_ns / SECOND == pytest.approx(prefill + decode)
    assert then.atoms == 3 * 10**12 * 2 * 40 // 3600
    (halved, _) = with_gpu(FLEET, dict(gpus()), None, "bf16", None).replicas
    assert halved.busy_ns / SECOND == pytest.approx(4 * here.flops("fp8") / here.flops("bf16") + 6 * 2)
    assert halved.atoms == R0.atoms


def test_without_constants_or_catalogue_a_replica_stays_as_it_is() -> None:
    blank = replace(R0, flop_per_token=0)
    fleet = Fleet((blank, replace(R0, gpu="asic-1")), {})
    assert with_perfect_affinity(Fleet((blank,), {})).replicas == (blank,)
    assert with_gpu(fleet, dict(gpus()), gpus()["b200"], None, 1).replicas == fleet.replicas


def test_only_as_many_replicas_stay_as_the_busiest_window_needs() -> None:
    """A peak of 1.2 replicas: two with a fifth free (1.5), one without headroom would be too few; at 0.9 one is enough."""
    assert without_idle(FLEET, Fraction(1, 5))[1] == {"m": (2, 2)}
    then, counts = without_idle(Fleet(FLEET.replicas, {"m": Fraction(8, 10)}), Fraction(1, 5))
    assert counts == {"m": (1, 2)}
    (kept,) = then.replicas
    assert (kept.replica, kept.busy_ns, kept.atoms, kept.input_tokens) == ("r0", 12 * SECOND, 400, 6000)


def test_work_that_does_not_fit_needs_more_of_the_same() -> None:
    assert State(Fleet((replace(R0, busy_ns=60 * SECOND),), {}), 1, 1).atoms == 600
    assert State(FLEET, 1, 1).atoms == 800
    assert State(FLEET, 1, 1).atoms_at(Fraction(3, 10)) == 400


uses = st.builds(
    lambda n, tokens, cached, more, busy, free, flop: replace(
        R0, replica=f"r{n}", input_tokens=tokens + cached + more, cached_tokens=cached, reachable_tokens=cached + more,
        busy_ns=busy, capacity_ns=busy + free, flop_per_token=flop,
    ),
    st.integers(0, 99), *(st.integers(0, 10**9) for _ in range(3)), st.integers(0, 10**15), st.integers(0, 10**15), st.integers(0, 10**12),
)  # fmt: skip


@given(st.lists(uses, min_size=1, max_size=5), st.fractions(0, 1))
def test_more_cached_is_never_more_busy(some: list[ReplicaUse], ratio: Fraction) -> None:
    fleet = Fleet(tuple(some), {"m": Fraction(1)})
    assert with_perfect_affinity(fleet).busy_ns <= fleet.busy_ns
    then = with_hit_ratio(fleet, ratio)
    assert all(0 <= one.cached_tokens <= one.input_tokens and one.busy_ns >= 0 for one in then.replicas)
    if then.cached_tokens >= fleet.cached_tokens:
        assert then.busy_ns <= fleet.busy_ns
    kept, _ = without_idle(fleet, Fraction(1, 5))
    assert (kept.busy_ns, kept.input_tokens, kept.cached_tokens) == (fleet.busy_ns, fleet.input_tokens, fleet.cached_tokens)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, "say what would be otherwise"),
        ({"headroom": Decimal("0.1")}, "say what would be otherwise"),
        ({"perfect_affinity": True, "hit_ratio": Decimal(1)}, "give one"),
        ({"hit_ratio": Decimal("1.1")}, "not between 0 and 1"),
        ({"remove_idle": True, "headroom": Decimal(1)}, "headroom"),
        ({"gpu": "h1000", "usd_per_gpu_hour": Decimal(1)}, "not in the catalogue"),
        ({"gpu": "b200"}, "needs --usd-per-gpu-hour"),
        ({"usd_per_gpu_hour": Decimal(-1)}, "negative"),
    ],
)
def test_a_scenario_that_cannot_be_meant_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Scenario(**wrong)
