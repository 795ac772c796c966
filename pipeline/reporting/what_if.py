"""What the same requests would have cost otherwise: arithmetic over what each replica did, with the roofline that splits its time. Pure.

A replica's busy time is taken apart in two:

    prefill = uncached input tokens x FLOP per token / FLOP/s of the replica       (compute bound; at most its busy time)
    decode  = busy - prefill                                                       (bound by reading weights and KV cache)

A change of routing or hit ratio moves tokens out of the first; another GPU or precision scales the first by FLOP/s and the second by
bytes/s and bytes a value. What this cannot know is in `ASSUMPTIONS`, and is printed with every answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from schemas.catalog import BYTES_PER_VALUE, Gpu, Precision

ASSUMPTIONS = {
    "always": "The same requests arrive at the same times and ask for as many tokens; queues and preemptions do not change.",
    "tokens": (
        "A cached token saves the compute time of its prefill at the replica's FLOP/s. Steps that wait for memory anyway save less, so the"
        " GPU time saved is an upper bound."
    ),
    "affinity": (
        "Every attempt finds the longest prefix that any replica had when its router chose; attempts whose router told no hits keep theirs."
    ),
    "gpu": "Prefill scales with dense FLOP/s, decode with HBM bytes/s and bytes a value; efficiency, batches and links stay as they are.",
    "fleet": "A model keeps as many replicas as its busiest window needs with the headroom; load moves between them without slowing down.",
    "slo": "The objective changes the verdict on answers that were given; no scheduler would have acted on it.",
}


@dataclass(frozen=True, slots=True)
class ReplicaUse:
    """One replica over the range. `reachable_tokens`: cached input tokens if each attempt had gone where most of its prefix was.

    `flop_per_token`, `flops_per_second` 0: no constants. `peak_busy`: its busiest window's busy time over the window's length.
    """

    replica: str
    model: str
    gpu: str
    gpus: int
    precision: Precision
    input_tokens: int
    cached_tokens: int
    reachable_tokens: int
    busy_ns: int
    capacity_ns: int
    atoms: int
    flop_per_token: int
    flops_per_second: int

    @property
    def prefill_ns(self) -> Fraction:
        return min(self._prefill(self.input_tokens - self.cached_tokens), Fraction(self.busy_ns))

    @property
    def has_constants(self) -> bool:
        return self.flop_per_token > 0 and self.flops_per_second > 0

    def busy_with_cached(self, cached_tokens: int) -> int:
        """Busy time if so many of its input tokens came from the cache."""
        fewer = self.prefill_ns - min(self._prefill(self.input_tokens - cached_tokens), Fraction(self.busy_ns))
        return self.busy_ns - int(fewer)

    def _prefill(self, tokens: int) -> Fraction:
        return Fraction(tokens * self.flop_per_token * 10**9, self.flops_per_second) if self.has_constants else Fraction(0)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The replicas of a range, and per model the busiest window: busy time of all its replicas over the window's length."""

    replicas: tuple[ReplicaUse, ...]
    peaks: dict[str, Fraction]

    @property
    def busy_ns(self) -> int:
        return sum(one.busy_ns for one in self.replicas)

    @property
    def capacity_ns(self) -> int:
        return sum(one.capacity_ns for one in self.replicas)

    @property
    def atoms(self) -> int:
        return sum(one.atoms for one in self.replicas)

    @property
    def input_tokens(self) -> int:
        return sum(one.input_tokens for one in self.replicas)

    @property
    def cached_tokens(self) -> int:
        return sum(one.cached_tokens for one in self.replicas)


def with_perfect_affinity(fleet: Fleet) -> Fleet:
    return _with_cached(fleet, [max(one.cached_tokens, one.reachable_tokens) for one in fleet.replicas])


def with_hit_ratio(fleet: Fleet, ratio: Fraction) -> Fleet:
    """`ratio` of all input tokens cached, up or down; each replica moves by the same part of what it can move."""
    wanted = int(fleet.input_tokens * ratio)
    cached, room = fleet.cached_tokens, fleet.input_tokens - fleet.cached_tokens
    if wanted >= cached:
        part = Fraction(wanted - cached, room) if room else Fraction(0)
        return _with_cached(fleet, [one.cached_tokens + int((one.input_tokens - one.cached_tokens) * part) for one in fleet.replicas])
    return _with_cached(fleet, [int(one.cached_tokens * Fraction(wanted, cached)) for one in fleet.replicas])


def with_gpu(fleet: Fleet, now: dict[str, Gpu], gpu: Gpu | None, precision: Precision | None, atoms_per_gpu_hour: int | None) -> Fleet:
    """Every replica on `gpu` (None: as it is) in `precision` (None: likewise), as many GPUs as now. `now`: the catalogue, by id.

    `atoms_per_gpu_hour` None: the price stays. Replicas whose GPU is in no catalogue, or that have no constants, stay as they are.
    """

    def moved(one: ReplicaUse) -> ReplicaUse:
        have = now.get(one.gpu)
        if have is None or not one.has_constants:
            return one
        then, values = gpu or have, precision or one.precision
        compute = Fraction(have.flops(one.precision), then.flops(values))
        bytes_each = BYTES_PER_VALUE[values] / BYTES_PER_VALUE[one.precision]
        memory = Fraction(have.hbm_bytes_per_second, then.hbm_bytes_per_second) * bytes_each
        busy_ns = int(one.prefill_ns * compute + (one.busy_ns - one.prefill_ns) * memory)
        atoms = one.atoms if atoms_per_gpu_hour is None else atoms_per_gpu_hour * one.gpus * one.capacity_ns // 3_600_000_000_000
        return replace(
            one, gpu=then.id, precision=values, busy_ns=busy_ns, atoms=atoms, flops_per_second=int(one.flops_per_second / compute)
        )

    return _scaled(fleet, [moved(one) for one in fleet.replicas])


def without_idle(fleet: Fleet, headroom: Fraction) -> tuple[Fleet, dict[str, tuple[int, int]]]:
    """Per model only the replicas that its busiest window needs, and (kept, held) of each. The idlest go; the others take their work."""
    kept: list[ReplicaUse] = []
    counts = {}
    for model in sorted({one.model for one in fleet.replicas}):
        held = sorted((one for one in fleet.replicas if one.model == model), key=lambda one: (-one.busy_ns, one.replica))
        need = min(len(held), max(1, ceil(fleet.peaks.get(model, Fraction(0)) / (1 - headroom))))
        moved = sum(one.busy_ns for one in held[need:])
        stay = held[:need]
        kept += [replace(one, busy_ns=one.busy_ns + moved * (n + 1) // need - moved * n // need) for n, one in enumerate(stay)]
        counts[model] = (need, len(held))
    gone = fleet.input_tokens - sum(one.input_tokens for one in kept), fleet.cached_tokens - sum(one.cached_tokens for one in kept)
    if kept and gone != (0, 0):  # their requests go with their work
        kept[0] = replace(kept[0], input_tokens=kept[0].input_tokens + gone[0], cached_tokens=kept[0].cached_tokens + gone[1])
    return Fleet(tuple(kept), fleet.peaks), counts


def _with_cached(fleet: Fleet, cached: Sequence[int]) -> Fleet:
    return _scaled(
        fleet,
        [
            replace(one, cached_tokens=tokens, busy_ns=one.busy_with_cached(tokens)) if one.has_constants else one
            for one, tokens in zip(fleet.replicas, cached, strict=True)
        ],
    )


def _scaled(fleet: Fleet, replicas: Iterable[ReplicaUse]) -> Fleet:
    """Peaks move as their model's busy time does."""
    moved = tuple(replicas)

    def busy(some: Iterable[ReplicaUse], model: str) -> int:
        return sum(one.busy_ns for one in some if one.model == model)

    peaks = {
        model: peak * Fraction(busy(moved, model), before) if (before := busy(fleet.replicas, model)) else peak
        for model, peak in fleet.peaks.items()
    }
    return Fleet(moved, peaks)
