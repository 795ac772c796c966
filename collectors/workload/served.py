"""A request as the gateway knows it when it is over: the facts that spans and truth are made of. Times are unix ns."""

from typing import NamedTuple

from collectors.workload.plan import Plan
from collectors.workload.sequence import Ended, Sequence
from collectors.workload.trace import TraceRequest

NETWORK_NS = 300_000  # gateway to engine, one way
STREAM_NS = 700_000  # gateway to the client's socket
REFUSAL_NS = 2_000_000  # until a 503 is back


class Attempt:
    """One call of an engine. `sequence` is None where the engine never took it (503)."""

    __slots__ = ("best_hit_tokens", "expected_hit_tokens", "number", "replica", "route_end_ns", "route_start_ns", "sequence")

    def __init__(
        self,
        number: int,
        replica: str,
        route_start_ns: int,
        route_end_ns: int,
        expected_hit_tokens: int,
        best_hit_tokens: int,
        sequence: Sequence | None,
    ) -> None:
        self.number = number
        self.replica = replica
        self.route_start_ns = route_start_ns
        self.route_end_ns = route_end_ns
        self.expected_hit_tokens = expected_hit_tokens
        self.best_hit_tokens = best_hit_tokens
        self.sequence = sequence

    @property
    def failed(self) -> bool:
        return self.sequence is None or self.sequence.ended is Ended.CRASHED

    @property
    def arrived_ns(self) -> int:
        """When the engine has it."""
        return self.route_end_ns + NETWORK_NS

    @property
    def ended_ns(self) -> int:
        """When the gateway has the last of it."""
        return self.route_end_ns + REFUSAL_NS if self.sequence is None else self.sequence.ended_ns + NETWORK_NS

    @property
    def usage(self) -> tuple[int, int, int] | None:
        """(input, of it cached, output) as the engine reports them: for what it scheduled and did not fail."""
        s = self.sequence
        if s is None or s.cached_tokens is None or self.failed:
            return None
        return s.prompt_tokens, s.cached_tokens, s.generated


class Served(NamedTuple):
    """`left_ns`: when the client went before the answer was complete; `delivered_tokens` reached its socket."""

    number: int
    request: TraceRequest
    plan: Plan
    arrival_ns: int
    attempts: tuple[Attempt, ...]
    left_ns: int | None
    delivered_tokens: int

    @property
    def blocked(self) -> bool:
        """The guardrail saw a whole answer and kept it back."""
        return self.plan.blocked and bool(self.attempts) and not self.attempts[-1].failed

    @property
    def stream_ns(self) -> tuple[int, int] | None:
        """First chunk out, last chunk out (or the moment the client was seen to be gone)."""
        sequence = self.attempts[-1].sequence if self.attempts else None
        if self.delivered_tokens == 0 or sequence is None or sequence.first_token_ns is None or sequence.last_token_ns is None:
            return None
        delay = NETWORK_NS + STREAM_NS
        return sequence.first_token_ns + delay, self.left_ns if self.left_ns is not None else sequence.last_token_ns + delay

    @property
    def routed_ns(self) -> int:
        """When auth and tokenizing were done."""
        return self.arrival_ns + self.plan.auth_ns + (0 if self.plan.rejected_status else self.plan.tokenize_ns)

    @property
    def settle_ns(self) -> tuple[int, int]:
        start = max(self.routed_ns, self.attempts[-1].ended_ns if self.attempts else 0, self.left_ns or 0, *(self.stream_ns or ()))
        return start, start + self.plan.settle_ns

    @property
    def ended_ns(self) -> int:
        return self.settle_ns[1]
