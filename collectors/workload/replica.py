"""One engine with continuous batching, as vLLM's v1 scheduler does it: first the running, then the waiting, first come first served,
at most `prefill_budget_tokens` a step, prompts in chunks beside decodes; out of pages, the last to come is preempted and computed again.

Time passes in steps. `advance(until)` does every step that starts before `until`; the clock may end past it, as a step is not
interrupted. Steps in which all decode are alike, so runs of them are summed (`DecodeRun`) and booked when the batch changes.
"""

from collections import deque

from collectors.workload.cache import KvCache
from collectors.workload.decode_run import DecodeRun
from collectors.workload.roofline import KV_PAGE_TOKENS, STEP_OVERHEAD_NS, TICKS_PER_NS, Roofline
from collectors.workload.sequence import Ended, Sequence
from collectors.workload.shares import split, step_weights
from collectors.workload.trace import BLOCK_TOKENS


class Replica:
    """`ended` collects attempts that are over; the owner empties it. Times are unix ns. Not thread-safe."""

    def __init__(self, id: str, roofline: Roofline, prefill_budget_tokens: int, running_max: int, window_ns: int) -> None:
        self.id = id
        self.roofline = roofline
        self.prefill_budget_tokens = prefill_budget_tokens
        self.running_max = running_max
        self.clock_ns = 0
        self.cache = KvCache(roofline.capacity_pages)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.ended: list[Sequence] = []
        self.doomed = 0  # attempts inside that will crash
        self.busy_ns: dict[int, int] = {}  # start of a window, unix ns -> ns of steps in it
        self._window_ns = window_ns
        self._compute_ns = self._memory_ns = self._link_ns = 0
        self._run: DecodeRun | None = None
        self._blocked = False  # the first in the queue cannot be admitted until somebody leaves

    def submit(self, sequence: Sequence) -> None:
        """Queues an attempt; it can be scheduled from its `ready_ns`, which lies not before what was advanced to."""
        self.waiting.append(sequence)
        self.doomed += sequence.crash

    def cancel(self, sequence: Sequence, at_ns: int) -> None:
        """Takes a live attempt out, at the end of the step that is under way. The replica has advanced to at_ns.
        An attempt that ends before it can be taken out ends as it would have."""
        self.settle()
        if sequence.ended:
            return
        (self.running if sequence in self.running else self.waiting).remove(sequence)
        self._end(sequence, Ended.CANCELLED, max(self.clock_ns, at_ns) if sequence.first_scheduled_ns is not None else at_ns)

    def unstarted_tokens(self) -> int:
        """Prompt tokens in the queue and in unfinished prefills: what a newcomer waits for."""
        running = 0 if self._run else sum(s.known - s.computed for s in self.running if not s.decoding)
        return running + sum(sequence.known for sequence in self.waiting)

    def next_start_ns(self) -> int | None:
        """When its next step starts; None if there is nothing to do."""
        if self.running:
            return self.clock_ns
        return max(self.clock_ns, self.waiting[0].ready_ns) if self.waiting else None

    def advance(self, until_ns: int) -> None:
        """Does every step that starts before until_ns."""
        while (start_ns := self.next_start_ns()) is not None and start_ns < until_ns:
            self.clock_ns = start_ns
            newcomer_ns = self.waiting[0].ready_ns if self.waiting and self._may_admit() else until_ns
            if newcomer_ns <= start_ns or not self._decode(min(until_ns, newcomer_ns)):
                self._step()

    def _may_admit(self) -> bool:
        return not self._blocked and len(self.running) < self.running_max

    def _decode(self, limit_ns: int) -> bool:
        """Decode steps up to the limit; False if the next step is not one, or must be done one by one."""
        run = self._run
        if run is None:
            if not all(sequence.decoding for sequence in self.running):
                return False
            run = self._run = DecodeRun(self.clock_ns, self.running, self.roofline, self.cache.available_pages)
        run.advance(limit_ns)
        self.clock_ns = run.clock_ns
        if run.complete or run.stuck:
            self.settle()
        return not run.stuck

    def settle(self) -> None:
        """Writes the open run of decode steps into its sequences, and ends those that are complete."""
        run, self._run = self._run, None
        if run is None or not run.steps:
            return
        r, steps, count = self.roofline, run.steps, len(self.running)
        if not self.cache.take(run.pages):
            raise AssertionError("a run of decode steps took pages that were not there")
        for sequence, context2, ticks in zip(self.running, run.first_context2, run.shares(), strict=True):
            pages = -(-(sequence.computed + steps) // KV_PAGE_TOKENS)
            sequence.private_pages += pages - sequence.pages
            sequence.pages = pages
            sequence.computed += steps
            sequence.high_water = max(sequence.high_water, sequence.computed)
            sequence.generated += steps
            sequence.last_token_ns = run.clock_ns
            sequence.gpu_ticks += ticks
            contexts2 = steps * context2 + steps * (steps - 1)
            work = sequence.decode
            work.tokens += steps
            work.steps += steps
            work.flop += steps * r.token_flop + r.attention_flop * contexts2
            work.cache_bytes += r.cache_bytes * contexts2 // 2
        self._busy(run.start_ns, run.clock_ns, steps, steps * count, run.compute_ticks, run.memory_ticks)
        for sequence in [sequence for sequence in self.running if sequence.generated == sequence.output_tokens]:
            self.running.remove(sequence)
            self._end(sequence, Ended.FINISHED, run.clock_ns)

    def _busy(self, start_ns: int, end_ns: int, steps: int, tokens: int, compute_ticks: int, memory_ticks: int) -> None:
        """Books busy time by window, and divides it: the exchange between GPUs, and the rest in proportion to what compute and
        memory would each take alone."""
        link_ns = min(tokens * self.roofline.link_ticks // TICKS_PER_NS, (end_ns - start_ns) // 2)
        rest_ns = max(0, end_ns - start_ns - steps * STEP_OVERHEAD_NS - link_ns)
        compute_ns = rest_ns * compute_ticks // (compute_ticks + memory_ticks)
        self._link_ns += link_ns
        self._compute_ns += compute_ns
        self._memory_ns += rest_ns - compute_ns
        while start_ns < end_ns:
            window_ns = start_ns - start_ns % self._window_ns
            upto_ns = min(end_ns, window_ns + self._window_ns)
            self.busy_ns[window_ns] = self.busy_ns.get(window_ns, 0) + upto_ns - start_ns
            start_ns = upto_ns

    def _step(self) -> None:
        """One step of any composition, item by item."""
        self.settle()
        plan = self._plan()
        r = self.roofline
        context2 = [2 * sequence.computed + tokens + 1 for sequence, tokens in plan]
        compute = [r.compute(tokens, context) for (_, tokens), context in zip(plan, context2, strict=True)]
        cache = [r.cache_ticks * context for context in context2]
        memory_ticks = r.weight_ticks + sum(cache)
        start_ns = self.clock_ns
        took_ns = -(-max(sum(compute), memory_ticks) // TICKS_PER_NS) + STEP_OVERHEAD_NS
        self.clock_ns += took_ns
        shares = split(took_ns * TICKS_PER_NS, step_weights(compute, cache, r.weight_ticks))
        self._busy(start_ns, self.clock_ns, 1, sum(tokens for _, tokens in plan), sum(compute), memory_ticks)
        for (sequence, tokens), context, ticks in zip(plan, context2, shares, strict=True):
            sequence.gpu_ticks += ticks
            self._compute(sequence, tokens, context)

    def _plan(self) -> list[tuple[Sequence, int]]:
        """Who gets how many tokens in the next step; takes their pages."""
        budget = self.prefill_budget_tokens
        plan: list[tuple[Sequence, int]] = []
        preempted = False
        while budget and len(plan) < len(self.running):  # each is planned or, from the end, preempted
            sequence = self.running[len(plan)]
            tokens = min(sequence.known - sequence.computed, budget)
            while not self._extend(sequence, tokens):
                preempted = True
                if self._preempt_last() is sequence:
                    break
            else:
                plan.append((sequence, tokens))
                budget -= tokens
        while not preempted and budget and self.waiting and self._may_admit() and self.waiting[0].ready_ns <= self.clock_ns:
            sequence = self.waiting[0]
            if not self._admit(sequence):
                self._blocked = True
                break
            self.running.append(self.waiting.popleft())
            tokens = min(sequence.known - sequence.computed, budget)
            if not self._extend(sequence, tokens):
                raise AssertionError("an admitted prompt does not fit")
            plan.append((sequence, tokens))
            budget -= tokens
        return plan

    def _extend(self, sequence: Sequence, tokens: int) -> bool:
        pages = -(-(sequence.computed + tokens) // KV_PAGE_TOKENS)
        if not self.cache.take(pages - sequence.pages):
            return False
        sequence.private_pages += pages - sequence.pages
        sequence.pages = pages
        return True

    def _admit(self, sequence: Sequence) -> bool:
        """Gives it the cached part of its prompt if all the rest would fit now; at least one token is always computed."""
        found = self.cache.match(sequence.blocks[: (sequence.known - 1) // BLOCK_TOKENS])
        self.cache.hold(sequence.blocks[:found])
        held_pages = found * (BLOCK_TOKENS // KV_PAGE_TOKENS)
        if -(-sequence.known // KV_PAGE_TOKENS) - held_pages > self.cache.available_pages:
            self.cache.release(0, sequence.blocks[:found])
            return False
        sequence.held = list(sequence.blocks[:found])
        sequence.published = found
        sequence.computed = found * BLOCK_TOKENS
        sequence.pages = held_pages
        if sequence.first_scheduled_ns is None:
            sequence.first_scheduled_ns = self.clock_ns
            sequence.cached_tokens = sequence.computed
            sequence.high_water = sequence.computed
            sequence.mark = (self._compute_ns, self._memory_ns, self._link_ns)
        return True

    def _preempt_last(self) -> Sequence:
        sequence = self.running.pop()
        self._let_go(sequence)
        sequence.preemptions += 1
        self.waiting.appendleft(sequence)
        return sequence

    def _let_go(self, sequence: Sequence) -> None:
        self.cache.release(sequence.private_pages, sequence.held)
        sequence.held = []
        sequence.computed = sequence.pages = sequence.private_pages = 0
        self._blocked = False

    def _compute(self, sequence: Sequence, tokens: int, context2: int) -> None:
        """What a step does to one item of its plan."""
        work, r = sequence.phase, self.roofline
        again = max(0, min(sequence.computed + tokens, sequence.high_water) - sequence.computed)
        sequence.computed += tokens
        sequence.high_water = max(sequence.high_water, sequence.computed)
        work.steps += 1
        work.recomputed_tokens += again
        work.flop += r.flop(tokens, context2)
        work.cache_bytes += r.cache_bytes * context2 // 2
        if sequence.first_token_ns is None:
            work.tokens += tokens - again
        self._publish(sequence)
        if sequence.computed == sequence.known:
            self._sample(sequence)

    def _publish(self, sequence: Sequence) -> None:
        """Offers the blocks that are complete now; a block that another request brought first stays private."""
        while sequence.published < len(sequence.blocks) and (sequence.published + 1) * BLOCK_TOKENS <= sequence.computed:
            block = sequence.blocks[sequence.published]
            if self.cache.publish(block):
                sequence.held.append(block)
                sequence.private_pages -= BLOCK_TOKENS // KV_PAGE_TOKENS
            sequence.published += 1

    def _sample(self, sequence: Sequence) -> None:
        if sequence.first_token_ns is None:
            if sequence.crash:
                self.running.remove(sequence)
                self._end(sequence, Ended.CRASHED, self.clock_ns)
                return
            sequence.first_token_ns = self.clock_ns
            self._close_phase(sequence)
        else:
            sequence.decode.tokens += 1
        sequence.generated += 1
        sequence.last_token_ns = self.clock_ns
        if sequence.generated == sequence.output_tokens:
            self.running.remove(sequence)
            self._end(sequence, Ended.FINISHED, self.clock_ns)

    def _close_phase(self, sequence: Sequence) -> None:
        """Books the engine's time since the phase began. Called when the first token is set (closes prefill) or at the end."""
        now = (self._compute_ns, self._memory_ns, self._link_ns)
        work = sequence.prefill if sequence.generated == 0 else sequence.decode
        work.compute_ns, work.memory_ns, work.link_ns = (after - before for after, before in zip(now, sequence.mark, strict=True))
        sequence.mark = now

    def _end(self, sequence: Sequence, how: Ended, at_ns: int) -> None:
        self._let_go(sequence)
        if sequence.first_scheduled_ns is not None:
            self._close_phase(sequence)
        self.doomed -= sequence.crash
        sequence.ended = how
        sequence.ended_ns = at_ns
        self.ended.append(sequence)
