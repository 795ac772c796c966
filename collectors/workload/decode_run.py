"""A run of steps in which the same sequences each get one token: summed step by step in constant time, shared out once.

With n sequences, doubled contexts c_i + 2 s at step s, and step times tau_s, the exact share of i is
    sum_s tau_s (w/n + kappa (c_i + 2 s)) / (w + kappa sum_j (c_j + 2 s)).
So with R0 = sum_s tau_s / cost_s and R1 = sum_s s tau_s / cost_s, it is R0 (w/n + kappa c_i) + 2 kappa R1. R0 and R1 are kept to
2^-60; the run's whole time is then split by these weights without a remainder.
"""

from collections.abc import Sequence as Seq

from collectors.workload.roofline import KV_PAGE_TOKENS, STEP_OVERHEAD_NS, TICKS_PER_NS, Roofline
from collectors.workload.sequence import Sequence
from collectors.workload.shares import split


class DecodeRun:
    """`stuck`: the next step needs pages that are not there, or is bound by compute, and must be done one by one."""

    def __init__(self, start_ns: int, running: Seq[Sequence], roofline: Roofline, available_pages: int) -> None:
        self.start_ns = self.clock_ns = start_ns
        self.steps = 0
        self.stuck = False
        self.first_context2 = [2 * (sequence.computed + 1) for sequence in running]
        self.steps_left = min(sequence.output_tokens - sequence.generated for sequence in running)
        self.pages = 0  # taken so far, over all sequences
        self.compute_ticks = self.memory_ticks = 0
        self._roofline = roofline
        self._context2 = sum(self.first_context2)
        self._available_pages = available_pages
        self._page_needs = [0] * KV_PAGE_TOKENS  # by step modulo page size: sequences that begin a page
        for sequence in running:
            self._page_needs[-sequence.computed % KV_PAGE_TOKENS] += 1
        self._rate = self._rate_by_step = 0  # R0, R1

    def advance(self, limit_ns: int) -> None:
        """Does every step that starts before the limit, until a sequence is complete or the run is stuck."""
        r, count = self._roofline, len(self.first_context2)
        weight, cache, token, attention = r.weight_ticks, r.cache_ticks, r.token_ticks * count, r.attention_ticks
        clock, steps, context2, pages = self.clock_ns, self.steps, self._context2, self.pages
        while clock < limit_ns and steps < self.steps_left:
            need = self._page_needs[steps % KV_PAGE_TOKENS]
            memory = weight + cache * context2
            compute = token + attention * context2
            if pages + need > self._available_pages or compute > memory:
                self.stuck = True
                break
            took_ns = -(-memory // TICKS_PER_NS) + STEP_OVERHEAD_NS
            rate = (took_ns << 60) // memory
            self._rate += rate
            self._rate_by_step += steps * rate
            self.compute_ticks += compute
            self.memory_ticks += memory
            clock += took_ns
            steps += 1
            pages += need
            context2 += 2 * count
        self.clock_ns, self.steps, self._context2, self.pages = clock, steps, context2, pages

    @property
    def complete(self) -> bool:
        return self.steps == self.steps_left

    def shares(self) -> list[int]:
        """Ticks per sequence, summing to the run's time."""
        count, r = len(self.first_context2), self._roofline
        grown = 2 * count * r.cache_ticks * self._rate_by_step
        weights = [self._rate * (r.weight_ticks + count * r.cache_ticks * context2) + grown for context2 in self.first_context2]
        return split((self.clock_ns - self.start_ns) * TICKS_PER_NS, weights)
