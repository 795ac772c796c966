"""The cluster in virtual time: requests arrive, are routed, run, fail and are tried again, lose their clients, and end.

A heap of gateway events drives it; before an event is handled, every replica does all steps that start before it. Only a crash can
bring a new event into the past of replicas that ran ahead, so while attempts that will crash are inside, the replicas concerned go
one step at a time in the order of their clocks, and an earlier retry is handled first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from heapq import heappop, heappush

from collectors.workload.options import RoutingPolicy
from collectors.workload.plan import Fate, Plan
from collectors.workload.replica import Replica
from collectors.workload.routing import choose
from collectors.workload.sequence import Ended
from collectors.workload.sequence import Sequence as EngineSequence
from collectors.workload.served import NETWORK_NS, REFUSAL_NS, STREAM_NS, Attempt, Served
from collectors.workload.trace import TraceRequest

LOOKUP_NS, LOOKUP_BLOCK_NS = 40_000, 1_000  # hashing and looking up a prompt's blocks
CANCEL_NS = 25_000_000  # from a broken connection to the engine's knowing
DELIVERY_NS = NETWORK_NS + STREAM_NS
END_NS = 1 << 63


class Event(IntEnum):
    """Order of events at one moment."""

    COUNT = 0  # what of the answer has been delivered when the client goes
    CANCEL = 1
    ROUTE = 2


class _Live:
    """A request under way."""

    __slots__ = ("arrival_ns", "attempts", "delivered_tokens", "leaves_ns", "number", "plan", "request")

    def __init__(self, number: int, request: TraceRequest, plan: Plan, arrival_ns: int) -> None:
        self.number, self.request, self.plan, self.arrival_ns = number, request, plan, arrival_ns
        self.attempts: list[Attempt] = []
        self.leaves_ns: int | None = None
        self.delivered_tokens: int | None = None  # counted when the client went


class Cluster:
    """`fleet`: the replicas of each model. Iterate `serve` once."""

    def __init__(self, fleet: Mapping[str, Sequence[Replica]], routing: RoutingPolicy) -> None:
        self._fleet = fleet
        self._replicas = [replica for replicas in fleet.values() for replica in replicas]
        self._by_id = {replica.id: replica for replica in self._replicas}
        self._routing = routing
        self._turns = dict.fromkeys(fleet, 0)
        self._events: list[tuple[int, Event, int]] = []
        self._live: dict[int, _Live] = {}
        self._over: list[Served] = []
        self._handle = {Event.COUNT: self._count, Event.CANCEL: self._cancel, Event.ROUTE: self._route}

    def serve(self, arrivals: Iterable[tuple[int, TraceRequest, Plan]]) -> Iterator[tuple[list[Served], int]]:
        """(requests that ended, watermark): every request not yet given ends after the watermark, in unix ns. Arrivals are in order."""
        now_ns = 0
        for number, (now_ns, request, plan) in enumerate(arrivals):
            self._run_until(now_ns)
            yield self._take_over(), self._watermark_ns(now_ns)
            self._arrive(_Live(number, request, plan, now_ns))
        while self._live:
            now_ns += 600 * 10**9
            self._run_until(now_ns)
            yield self._take_over(), self._watermark_ns(now_ns)
        yield self._take_over(), END_NS

    def _take_over(self) -> list[Served]:
        over, self._over = self._over, []
        return over

    def _watermark_ns(self, now_ns: int) -> int:
        first = next(iter(self._live.values()), None)  # in order of arrival
        return min(now_ns, first.arrival_ns) if first else now_ns

    def _arrive(self, live: _Live) -> None:
        self._live[live.number] = live
        if live.plan.rejected_status:
            self._close(live, None)
            return
        route_ns = live.arrival_ns + live.plan.auth_ns + live.plan.tokenize_ns
        self._push(route_ns, Event.ROUTE, live)
        if live.plan.leaves_after_ns is not None:
            live.leaves_ns = route_ns + live.plan.route_ns + live.plan.leaves_after_ns
            self._push(live.leaves_ns - DELIVERY_NS, Event.COUNT, live)

    def _push(self, at_ns: int, event: Event, live: _Live) -> None:
        heappush(self._events, (at_ns, event, live.number))

    def _run_until(self, until_ns: int) -> None:
        """Handles every event before until_ns."""
        while True:
            at_ns = min(until_ns, self._events[0][0]) if self._events else until_ns
            if not self._advance(at_ns):
                continue
            if at_ns == until_ns:
                return
            _, event, number = heappop(self._events)
            if (live := self._live.get(number)) is not None:
                self._handle[event](live, at_ns)

    def _advance(self, until_ns: int) -> bool:
        """Brings every replica to until_ns. False, having stopped, when an event before until_ns has appeared."""
        while True:
            next_step = min(
                (
                    (start, index)
                    for index, r in enumerate(self._replicas)
                    if r.doomed and (start := r.next_start_ns()) is not None and start < until_ns
                ),
                default=None,
            )
            if next_step is None:
                break
            start_ns, index = next_step
            self._replicas[index].advance(start_ns + 1)
            self._collect(self._replicas[index])
            if self._events and self._events[0][0] < until_ns:
                return False
        for replica in self._replicas:
            replica.advance(until_ns)
            self._collect(replica)
        return True

    def _collect(self, replica: Replica) -> None:
        if not replica.ended:
            return
        ended, replica.ended = replica.ended, []
        for sequence in ended:
            live = self._live[sequence.number]
            if sequence.ended is Ended.CRASHED:
                self._failed(live, sequence.ended_ns + NETWORK_NS)
            else:
                served = sequence.ended is Ended.FINISHED and sequence.ended_ns + DELIVERY_NS <= (live.leaves_ns or END_NS)
                self._close(live, None if served else live.leaves_ns)

    def _route(self, live: _Live, at_ns: int) -> None:
        """One attempt: choose, and hand over."""
        number = len(live.attempts)
        fate, request, plan = live.plan.fates[number], live.request, live.plan
        avoid = self._by_id[live.attempts[-1].replica] if live.attempts else None
        route = choose(self._routing, self._turns[plan.model], self._fleet[plan.model], request.blocks, request.input_tokens, avoid)
        self._turns[plan.model] += 1
        attempt = Attempt(
            number + 1, route.replica.id, at_ns, at_ns + plan.route_ns, route.expected_hit_tokens, route.best_hit_tokens, None
        )
        live.attempts.append(attempt)
        if fate is Fate.UNAVAILABLE:
            self._failed(live, attempt.route_end_ns + REFUSAL_NS)
            return
        ready_ns = attempt.arrived_ns + LOOKUP_NS + LOOKUP_BLOCK_NS * len(request.blocks)
        attempt.sequence = EngineSequence(
            live.number, request.input_tokens, request.output_tokens, request.blocks, ready_ns, crash=fate is Fate.CRASH
        )  # fmt: skip
        route.replica.submit(attempt.sequence)

    def _failed(self, live: _Live, at_ns: int) -> None:
        """An attempt failed; the client may be gone, or the gateway may have tried often enough."""
        number = len(live.attempts)
        last = number == len(live.plan.fates)
        again_ns = at_ns if last else at_ns + live.plan.backoff_ns[number - 1]
        if live.leaves_ns is not None and live.leaves_ns <= again_ns:
            self._close(live, live.leaves_ns)
        elif last:
            self._close(live, None)
        else:
            self._push(again_ns, Event.ROUTE, live)

    def _count(self, live: _Live, at_ns: int) -> None:
        """What the engine has made by now is what the client gets before it goes."""
        sequence = live.attempts[-1].sequence if live.attempts else None
        live.delivered_tokens = 0
        if sequence is not None:
            self._by_id[live.attempts[-1].replica].settle()
            under_way = sequence.last_token_ns is not None and sequence.last_token_ns > at_ns
            live.delivered_tokens = sequence.generated - under_way
        self._push(at_ns + DELIVERY_NS + CANCEL_NS, Event.CANCEL, live)

    def _cancel(self, live: _Live, at_ns: int) -> None:
        attempt = live.attempts[-1]
        replica = self._by_id[attempt.replica]
        if attempt.sequence is not None and attempt.sequence.ended is None:
            replica.cancel(attempt.sequence, at_ns)
            self._collect(replica)

    def _close(self, live: _Live, left_ns: int | None) -> None:
        """The request is over; `left_ns` if its client went before that."""
        del self._live[live.number]
        sequence = live.attempts[-1].sequence if live.attempts else None
        delivered = sequence.generated if sequence is not None else 0
        if left_ns is not None:
            # Not counted yet: the engine ended in the very step that was under way, so all but that step's token were out.
            delivered = max(0, delivered - 1) if live.delivered_tokens is None else live.delivered_tokens
        if live.plan.blocked:
            delivered = 0
        self._over.append(Served(live.number, live.request, live.plan, live.arrival_ns, tuple(live.attempts), left_ns, delivered))
