"""The modelled engine: nothing is lost, nothing is exceeded, and its time is divided exactly."""

from collections import Counter
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.workload.cache import BLOCK_PAGES
from collectors.workload.errors import ReplayRefused
from collectors.workload.options import ReplicaOptions
from collectors.workload.replica import Replica
from collectors.workload.roofline import STEP_OVERHEAD_NS, TICKS_PER_NS, gpus_for, roofline
from collectors.workload.sequence import Ended, Sequence
from collectors.workload.shares import split, step_weights

WINDOW_NS = 10**9
BUDGET, RUNNING_MAX, CAPACITY_TOKENS = 700, 5, 4096
SMALL = ReplicaOptions(id="r", model="llama-3.1-8b", kv_capacity_tokens=CAPACITY_TOKENS)
positive = st.integers(1, 10**12)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=6), positive)
def test_shares_of_a_step_are_the_closed_form_and_sum_to_its_cost(items: list[tuple[int, int]], weight: int) -> None:
    compute, cache = [item[0] for item in items], [item[1] for item in items]
    weights = step_weights(compute, cache, weight)
    a, k = sum(compute), sum(cache)
    t = Fraction(1) if a <= k + weight else Fraction(weight, a - k)
    exact = [Fraction(weight, len(items)) + t * read + (1 - t) * work for work, read in items]
    assert sum(exact) == max(a, k + weight)
    assert [Fraction(w, sum(weights)) for w in weights] == [share / sum(exact) for share in exact]


@given(st.integers(0, 10**20), st.lists(st.integers(0, 10**9), min_size=1, max_size=9).filter(any))
def test_a_split_is_exact_and_each_part_is_less_than_one_off(total: int, weights: list[int]) -> None:
    parts = split(total, weights)
    assert sum(parts) == total
    assert all(abs(part - Fraction(total * weight, sum(weights))) < 1 for part, weight in zip(parts, weights, strict=True))


class Watched(Replica):
    """Looks at every step that is planned one by one."""

    def _plan(self) -> list[tuple[Sequence, int]]:
        plan = super()._plan()
        assert plan, "a step without work"
        assert sum(tokens for _, tokens in plan) <= self.prefill_budget_tokens
        assert len(self.running) <= self.running_max
        return plan

    def check(self) -> None:
        self.settle()
        assert self.cache.free_pages >= 0
        assert self.cache.private_pages == sum(sequence.private_pages for sequence in self.running)
        assert Counter(block for s in self.running for block in s.held) == Counter({b: n for b, n in self.cache.holders.items() if n})
        assert set(self.cache.unheld) == {block for block, holders in self.cache.holders.items() if not holders}
        for sequence in self.running:
            assert sequence.pages == -(-sequence.computed // 16) == sequence.private_pages + BLOCK_PAGES * len(sequence.held)


class Slow(Replica):
    """Does every step one by one."""

    def _decode(self, limit_ns: int) -> bool:
        return False


def engine(kind: type[Replica] = Watched, options: ReplicaOptions = SMALL) -> Replica:
    return kind("r", roofline(options), BUDGET, RUNNING_MAX, WINDOW_NS)


# Prompt, output, application (whose blocks are shared), pause before it.
asked = st.tuples(st.integers(1, 2600), st.integers(1, 120), st.integers(0, 2), st.integers(0, 400_000_000))


def sequences(requests: list[tuple[int, int, int, int]]) -> list[Sequence]:
    made, ready_ns = [], 0
    for number, (prompt, output, application, pause_ns) in enumerate(requests):
        ready_ns += pause_ns
        blocks = [application * 100 + place for place in range(-(-prompt // 512))]
        made.append(Sequence(number, prompt, output, blocks, ready_ns))
    return made


def facts(sequence: Sequence) -> tuple[object, ...]:
    times = (sequence.first_scheduled_ns, sequence.first_token_ns, sequence.last_token_ns, sequence.ended_ns)
    return (*times, sequence.cached_tokens, sequence.generated, sequence.preemptions, sequence.gpu_ticks)


@settings(max_examples=40, deadline=None)
@given(st.lists(asked, min_size=1, max_size=14), st.lists(st.integers(1, 3 * 10**8), max_size=12))
def test_every_token_is_computed_once_and_busy_time_is_the_sum_of_the_shares(
    requests: list[tuple[int, int, int, int]], pauses: list[int]
) -> None:
    replica, made = engine(), sequences(requests)
    assert isinstance(replica, Watched)
    for sequence in made:
        replica.submit(sequence)
    now_ns = 0
    for pause_ns in pauses:
        now_ns += pause_ns
        replica.advance(now_ns)
        replica.check()
    replica.advance(10**15)
    replica.check()
    assert sorted(sequence.number for sequence in replica.ended) == list(range(len(made)))
    for s in made:
        assert s.ended is Ended.FINISHED
        assert s.generated == s.output_tokens
        assert s.cached_tokens is not None
        assert s.cached_tokens + s.prefill.tokens == s.prompt_tokens
        assert s.decode.tokens == s.output_tokens - 1
        assert s.cached_tokens < s.prompt_tokens
        assert s.first_scheduled_ns is not None and s.first_token_ns is not None and s.last_token_ns is not None
        assert s.ready_ns <= s.first_scheduled_ns < s.first_token_ns <= s.last_token_ns == s.ended_ns
        assert bool(s.prefill.recomputed_tokens or s.decode.recomputed_tokens) <= bool(s.preemptions)
        lasted_ns = s.first_token_ns - s.first_scheduled_ns
        assert s.prefill.compute_ns + s.prefill.memory_ns + s.prefill.link_ns <= lasted_ns
    assert sum(s.gpu_ticks for s in made) == sum(replica.busy_ns.values()) * TICKS_PER_NS
    assert all(0 < busy_ns <= WINDOW_NS for busy_ns in replica.busy_ns.values())


@settings(max_examples=25, deadline=None)
@given(st.lists(asked, min_size=1, max_size=10), st.lists(st.integers(1, 2 * 10**8), min_size=1, max_size=12))
def test_advancing_in_pieces_changes_nothing(requests: list[tuple[int, int, int, int]], pauses: list[int]) -> None:
    results = []
    for pieces in ([], pauses):
        replica, made = engine(Replica), sequences(requests)
        for sequence in made:
            replica.submit(sequence)
        now_ns = 0
        for pause_ns in pieces:
            now_ns += pause_ns
            replica.advance(now_ns)
        replica.advance(10**15)
        results.append([facts(sequence) for sequence in made])
    assert results[0] == results[1]


@settings(max_examples=25, deadline=None)
@given(st.lists(asked, min_size=1, max_size=10))
def test_summed_runs_of_decode_steps_equal_single_steps(requests: list[tuple[int, int, int, int]]) -> None:
    results = []
    for kind in (Replica, Slow):
        replica, made = engine(kind), sequences(requests)
        for sequence in made:
            replica.submit(sequence)
        replica.advance(10**15)
        results.append(made)
    for fast, slow in zip(*results, strict=True):
        assert facts(fast)[:-1] == facts(slow)[:-1]
        # Each single step rounds to whole ticks, a run does so once.
        assert abs(fast.gpu_ticks - slow.gpu_ticks) <= slow.prefill.steps + 2 * slow.decode.steps + 2
        assert (fast.decode.flop, fast.prefill.flop) == (slow.decode.flop, slow.prefill.flop)


def test_a_lone_decode_step_takes_what_the_roofline_says() -> None:
    replica = engine(options=ReplicaOptions(id="r", model="llama-3.3-70b", gpus=4))
    only = Sequence(0, 100, 2, [], 0)
    replica.submit(only)
    replica.advance(10**12)
    bytes_per_second = Fraction(3_350_000_000_000) * 4 * Fraction(7, 10)
    kv_bytes = 2 * 80 * 8 * 128 * 2
    expected_ns = (70_553_706_496 + kv_bytes * 101) / bytes_per_second * 10**9 + STEP_OVERHEAD_NS
    assert only.last_token_ns is not None and only.first_token_ns is not None
    assert 0 <= only.last_token_ns - only.first_token_ns - expected_ns < 2


def test_out_of_pages_the_last_to_come_is_preempted_and_still_finishes() -> None:
    replica = engine()
    made = [Sequence(number, 1300, 300, [], number) for number in range(3)]
    for sequence in made:
        replica.submit(sequence)
    replica.advance(10**15)
    assert [sequence.ended for sequence in made] == [Ended.FINISHED] * 3
    assert made[0].preemptions == 0
    assert made[2].preemptions > 0
    assert made[2].decode.recomputed_tokens >= 1300


def test_a_prefix_is_found_again_until_others_push_it_out() -> None:
    replica = engine()
    prompts = [(1, 2, 3, 4), (1, 2, 3, 9), (10, 11, 12, 13, 14, 15), (1, 2, 3, 4)]
    for number, blocks in enumerate(prompts):
        replica.submit(Sequence(number, 512 * len(blocks), 2, blocks, number * 10**10))
    replica.advance(10**15)
    # The third needs six of the eight blocks: 4, 9, 3 and 2 go, the beginning 1 goes last.
    assert [sequence.cached_tokens for sequence in replica.ended] == [0, 3 * 512, 0, 512]
    assert replica.cache.evicted_blocks > 0


def test_a_cancelled_attempt_leaves_at_the_end_of_the_step_and_keeps_what_it_used() -> None:
    replica = engine()
    stays, goes, queued = (Sequence(0, 500, 100, [], 0), Sequence(1, 500, 100, [], 0), Sequence(2, 10, 10, [], 5 * 10**8))
    for sequence in (stays, goes, queued):
        replica.submit(sequence)
    replica.advance(2 * 10**8)
    replica.cancel(goes, 2 * 10**8)
    replica.cancel(queued, 2 * 10**8)
    assert goes.ended is Ended.CANCELLED and goes.ended_ns == replica.clock_ns >= 2 * 10**8
    assert 0 < goes.generated < 100 and goes.gpu_ticks > 0
    assert queued.first_scheduled_ns is None and queued.gpu_ticks == 0
    replica.advance(10**15)
    assert stays.generated == 100
    assert sum(s.gpu_ticks for s in (stays, goes)) == sum(replica.busy_ns.values()) * TICKS_PER_NS
    assert replica.cache.private_pages == 0


def test_a_crash_costs_the_prefill_and_gives_no_token() -> None:
    replica = engine()
    replica.submit(Sequence(0, 1500, 10, [], 0, crash=True))
    assert replica.doomed == 1
    replica.advance(10**15)
    (crashed,) = replica.ended
    assert (crashed.ended, crashed.generated, crashed.prefill.tokens, replica.doomed) == (Ended.CRASHED, 0, 1500, 0)
    assert crashed.gpu_ticks == sum(replica.busy_ns.values()) * TICKS_PER_NS > 0


def test_figures_that_do_not_exist_or_do_not_fit_are_refused() -> None:
    with pytest.raises(ReplayRefused, match="no figures for model 'x'"):
        roofline(ReplicaOptions(id="r", model="x"))
    with pytest.raises(ReplayRefused, match="no figures for GPU 'x'"):
        roofline(ReplicaOptions(id="r", model="llama-3.1-8b", gpu="x"))
    with pytest.raises(ReplayRefused, match="no KV cache"):
        roofline(ReplicaOptions(id="r", model="llama-3.3-70b", gpus=1, memory_share=Decimal("0.5")))
    assert (gpus_for("llama-3.1-8b"), gpus_for("llama-3.3-70b")) == (1, 2)
