"""What chance decides about a request, drawn before it runs, from the seed and the request alone: so the fate of one request does not
depend on any other, and the same seed and input give the same replay."""

from collections.abc import Mapping, Sequence
from enum import Enum
from random import Random
from typing import NamedTuple

from collectors.workload.options import Faults
from collectors.workload.trace import TraceRequest


class Fate(Enum):
    """What happens to one attempt."""

    FINE = "fine"
    UNAVAILABLE = "unavailable"
    CRASH = "crash"


class Plan(NamedTuple):
    tenant: str
    model: str
    rejected_status: int | None  # HTTP status with which the gateway turns it away
    blocked: bool
    fates: tuple[Fate, ...]  # of the attempts, in order; the gateway gives up after the last
    leaves_after_ns: int | None  # from the start of the first attempt
    finish_reason: str
    auth_ns: int
    tokenize_ns: int
    route_ns: int
    settle_ns: int
    backoff_ns: tuple[int, ...]  # before the second attempt, the third, ...


def session_key(request: TraceRequest) -> str:
    """Requests with one key belong together and share tenant and model: a session, or a prompt's second block (the first is often a
    system prompt that all share), or the request alone."""
    if request.session_id is not None:
        return f"session {request.session_id}"
    return f"block {request.blocks[min(1, len(request.blocks) - 1)]}" if request.blocks else f"line {request.line}"


def owner(request: TraceRequest, seed: int, tenants: Sequence[str], models: Sequence[str]) -> tuple[str, str]:
    """Tenant and model of a request: the line's own, else by its session. The first tenant is the largest (weights 1, 1/2, 1/3, ...)."""
    chance = Random(f"{seed} owner {session_key(request)}")
    tenant = chance.choices(tenants, [1 / place for place in range(1, len(tenants) + 1)])[0]
    model = chance.choice(models)
    return request.tenant or tenant, request.model or model


def draw(request: TraceRequest, seed: int, owners: tuple[str, str], faults: Faults, shares: Mapping[str, float]) -> Plan:
    """The plan of a request; `shares` are the faults' ratios as floats, by field name."""
    chance = Random(f"{seed} request {request.line}")
    uniform = chance.random
    rejected = uniform() < shares["rejected"]
    blocked = uniform() < shares["blocked"]
    poisoned = uniform() < shares["poisoned"]
    fates = []
    for _ in range(faults.attempts_max):
        luck = uniform()
        if poisoned or luck < shares["crash"]:
            fates.append(Fate.CRASH)
        else:
            fates.append(Fate.UNAVAILABLE if luck < shares["crash"] + shares["unavailable"] else Fate.FINE)
    leaves = uniform() < shares["leaves"]
    # A moment up to somewhat after a usual answer's end: some who would leave are served before they do.
    usual_ns = 300_000_000 + 40_000 * request.input_tokens + 12_000_000 * request.output_tokens
    patience_ns = 20_000_000 + int(usual_ns * (0.02 + 1.08 * uniform()))
    return Plan(
        tenant=owners[0],
        model=owners[1],
        rejected_status=429 if rejected else None,
        blocked=blocked,
        fates=tuple(fates),
        leaves_after_ns=patience_ns if leaves and not blocked else None,
        finish_reason="length" if uniform() < 0.08 else "stop",
        auth_ns=chance.randrange(300_000, 900_000),
        tokenize_ns=200_000 + request.input_tokens * chance.randrange(600, 1_000),
        route_ns=chance.randrange(150_000, 400_000),
        settle_ns=chance.randrange(200_000, 600_000),
        backoff_ns=tuple(chance.randrange(100_000_000, 150_000_000) << number for number in range(faults.attempts_max - 1)),
    )
