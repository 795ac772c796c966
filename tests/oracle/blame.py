"""The slow way to say which stage made a request late, in exact fractions: what pipeline/attribution/sql/blame must agree with.

Only the stored figures are rounded, as documented: what is usual to whole ps per unit, the expected time to whole ns.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor

INNERMOST_LAST = (
    "other", "gateway", "stream", "settle", "auth", "tokenize", "route", "schedule", "kv_cache", "prefill", "decode",
    "kernel", "hbm", "nvlink", "switch", "nic",
)  # fmt: skip
INNER = {"kernel", "hbm", "nvlink", "switch", "nic"}
ENOUGH = 30
DAY_WINDOWS = 96  # of 15 minutes

Key = tuple[str, str, str]  # model, part, stage


@dataclass(frozen=True)
class Request:
    """`early_ns`: the part of `own_ns` before the first token; None: nobody knows when that came. `window`: number, negative: before."""

    request_id: str
    window: int = 0
    model: str = "m"
    outcome: str = "useful"
    missed: str = "none"
    own_ns: Mapping[str, int] = field(default_factory=dict)
    early_ns: Mapping[str, int] | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tenant: str = "acme"
    values: Mapping[str, int] | None = None  # by measure, ns


@dataclass(frozen=True)
class Blame:
    stage: str
    excess_ns: int
    excesses: Mapping[str, int]
    compared: int


def parts_of(request: Request) -> dict[str, dict[str, int]]:
    if request.early_ns is None:
        return {"whole": dict(request.own_ns)}
    early = dict(request.early_ns)
    return {"before": early, "after": {stage: ns - early[stage] for stage, ns in request.own_ns.items()}}


def bounded(request: Request) -> Request:
    """What takes longer than 104 days is taken as 104 days."""
    own = {stage: min(ns, 9 * 10**15) for stage, ns in request.own_ns.items()}
    early = None if request.early_ns is None else {stage: min(ns, own[stage]) for stage, ns in request.early_ns.items()}
    return replace(request, own_ns=own, early_ns=early)


def units(request: Request, part: str, stage: str) -> int | None:
    """What a stage's time grows with; None: the request does not tell it."""
    goes_by_input = (stage == "prefill" and part != "after") or (stage in INNER and part == "before")
    goes_by_output = (stage == "decode" and part != "before") or (stage in INNER and part == "after")
    tokens = request.input_tokens if goes_by_input else request.output_tokens if goes_by_output else 1
    return None if tokens is None else max(tokens, 1)


def usual(requests: Iterable[Request]) -> dict[Key, tuple[int, int]]:
    """How many requests, and their median (nearest rank) in ps per unit."""
    found: dict[Key, list[Fraction]] = defaultdict(list)
    for request in requests:
        if request.outcome != "useful":
            continue
        for part, own in parts_of(bounded(request)).items():
            for stage, ns in own.items():
                if (by := units(request, part, stage)) is not None:
                    found[request.model, part, stage].append(Fraction(ns * 1000, by))
    return {key: (len(rates), floor(sorted(rates)[(len(rates) + 1) // 2 - 1])) for key, rates in found.items()}


def baselines(run: Sequence[Request], earlier: Sequence[Request]) -> dict[int, dict[Key, tuple[int, int]]]:
    """Per window of `run`. `earlier`: published requests of windows before the run's. Asked for models in which somebody missed, the 24
    hours before a window help, whichever run they are of."""
    return {window: _of_window(window, run, earlier) for window in {request.window for request in run}}


def _of_window(window: int, run: Sequence[Request], earlier: Sequence[Request]) -> dict[Key, tuple[int, int]]:
    own = [request for request in run if request.window == window]
    enough = {key: value for key, value in usual(own).items() if value[0] >= ENOUGH}
    lacking = {
        request.model
        for request in own
        if request.missed != "none"
        for part, times in parts_of(request).items()
        for stage in times
        if (request.model, part, stage) not in enough
    }
    day = [request for request in (*run, *earlier) if window - DAY_WINDOWS <= request.window <= window]
    longer = {key: value for key, value in usual(day).items() if value[0] >= ENOUGH and key[0] in lacking}
    return longer | enough


def tail(requests: Iterable[Request]) -> set[tuple[str, str]]:
    """(request, measure) of the slowest hundredth of each window, tenant and model."""
    groups: dict[tuple[int, str, str, str], list[tuple[int, str]]] = defaultdict(list)
    for request in requests:
        for measure, value in (request.values or {}).items():
            if request.outcome != "rejected":
                groups[request.window, request.tenant, request.model, measure].append((-value, request.request_id))
    return {(name, key[3]) for key, values in groups.items() for _, name in sorted(values)[: ceil(Fraction(len(values), 100))]}


def blame(request: Request, measure: str, typical: Mapping[Key, tuple[int, int]]) -> Blame:
    parts = parts_of(request)
    counted = {"ttft": ["before"], "tpot": ["after"], "e2e": ["before", "after"]}[measure] if "whole" not in parts else ["whole"]
    excesses: dict[str, int] = {}
    compared = 0
    for stage in request.own_ns:
        known = [
            parts[part][stage] - floor(Fraction(typical[request.model, part, stage][1] * by, 1000))
            for part in counted
            if (request.model, part, stage) in typical and (by := units(request, part, stage)) is not None
        ]
        compared += bool(known)
        if sum(known) > 0:
            excesses[stage] = sum(known)
    if not excesses:
        return Blame("other", 0, {}, compared)
    stage = max(excesses, key=lambda stage: (excesses[stage], INNERMOST_LAST.index(stage)))
    return Blame(stage, excesses[stage], excesses, compared)
