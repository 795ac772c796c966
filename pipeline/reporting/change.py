"""Why one period cost more or less than another: the difference, split into parts that sum to it exactly. Pure.

GPU money of a period, over GPU time (ns) of priced replicas:

    cost   = price x (useful + waste + idle)               price: atoms a ns of capacity
    useful = volume x sum over (tenant, model) of mix x (work - cache)
                                                           volume: useful tokens; mix: their shares; work: GPU time a useful token would
                                                           have taken without the prefix cache; cache: what it saved of that
    waste  = useful x waste ratio                          attempts that were not useful, and busy time that no span explains
    idle   = (useful + waste) x idle ratio                 utilisation

A part is the Shapley value of its factor: the mean, over all orders in which the seven factors could have changed one after the other, of
what the change of that factor does to the cost. So no order is preferred, and nothing is left over. Other pools are parts by themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import factorial

FACTORS = ("volume", "mix", "work", "cache", "waste", "utilisation", "price")
Name = tuple[str, str]  # tenant, model


@dataclass(frozen=True, slots=True)
class Cell:
    """One tenant's use of one model. `saved_atoms`: what its cached tokens would have cost to prefill (gross, an estimate)."""

    useful_tokens: int
    useful_ns: int
    saved_atoms: int = 0


@dataclass(frozen=True, slots=True)
class Period:
    """`capacity_ns`: all GPU time of priced replicas; what of it is neither useful (`cells`) nor idle is waste."""

    cells: Mapping[Name, Cell]
    capacity_ns: int
    idle_ns: int
    gpu_atoms: int
    pool_atoms: Mapping[str, int] = field(default_factory=dict)  # the other pools

    @property
    def useful_tokens(self) -> int:
        return sum(cell.useful_tokens for cell in self.cells.values())

    @property
    def useful_ns(self) -> int:
        return sum(cell.useful_ns for cell in self.cells.values())

    @property
    def waste_ns(self) -> int:
        return self.capacity_ns - self.idle_ns - self.useful_ns

    @property
    def price(self) -> Fraction:
        return Fraction(self.gpu_atoms, self.capacity_ns) if self.capacity_ns else Fraction(0)

    @property
    def saved_ns(self) -> Fraction:
        return Fraction(sum(cell.saved_atoms for cell in self.cells.values())) / self.price if self.price else Fraction(0)

    @property
    def atoms(self) -> int:
        return self.gpu_atoms + sum(self.pool_atoms.values())


def change(before: Period, after: Period) -> dict[str, int]:
    """Part -> atoms: the seven factors, then each other pool. Their sum is `after.atoms - before.atoms`, to the atom."""
    whole = _cost(before, after)
    shares = {name: _shapley(whole, place) for place, name in enumerate(FACTORS)}
    parts = dict(zip(shares, _rounded(list(shares.values())), strict=True))
    pools = sorted({*before.pool_atoms, *after.pool_atoms})
    return parts | {pool: after.pool_atoms.get(pool, 0) - before.pool_atoms.get(pool, 0) for pool in pools}


Choice = tuple[int, ...]  # per factor: 0 as before, 1 as after


def _cost(before: Period, after: Period) -> dict[Choice, Fraction]:
    """GPU cost for every mixture of the two periods' factors. The plain ones are the two periods' own costs."""
    both = (before, after)
    useful = _useful_ns(both)
    proportional = all(period.useful_ns for period in both)  # else a ratio to useful time means nothing, and waste is taken as it is
    busy = [period.useful_ns + period.waste_ns for period in both]
    found = {}
    for choice in product((0, 1), repeat=len(FACTORS)):
        volume, mix, work, cache, waste, utilisation, price = choice
        useful_ns = useful[volume, mix, work, cache]
        wasting, resting = both[waste], both[utilisation]
        waste_ns = useful_ns * Fraction(wasting.waste_ns, wasting.useful_ns) if proportional else Fraction(wasting.waste_ns)
        idle_ns = (useful_ns + waste_ns) * Fraction(resting.idle_ns, busy[utilisation]) if all(busy) else Fraction(resting.idle_ns)
        found[choice] = both[price].price * (useful_ns + waste_ns + idle_ns)
    return found


def _useful_ns(both: Sequence[Period]) -> dict[Choice, Fraction]:
    """Useful GPU time for every mixture of volume, mix, work and cache.

    A (tenant, model) that one period does not have takes the other's work and cache: it came or went by mix. Useful time without useful
    tokens (embeddings) goes with work. If one period has no useful token at all, everything goes with volume.
    """
    volumes = [period.useful_tokens for period in both]
    if not all(volumes):
        return {choice: Fraction(both[choice[0]].useful_ns) for choice in product((0, 1), repeat=4)}
    tokenless = [sum(cell.useful_ns for cell in period.cells.values() if not cell.useful_tokens) for period in both]
    sums = {(mix, work, cache): Fraction(0) for mix, work, cache in product((0, 1), repeat=3)}
    for shares, works, caches in _per_token(both, volumes):
        for mix, work, cache in sums:
            sums[mix, work, cache] += shares[mix] * (works[work] - caches[cache])
    return {(volume, *rest): volumes[volume] * sums[rest] + tokenless[rest[1]] for volume, rest in product((0, 1), sums)}


def _per_token(both: Sequence[Period], volumes: Sequence[int]) -> Iterator[tuple[list[Fraction], list[Fraction], list[Fraction]]]:
    """Per (tenant, model): its share of the useful tokens, work and cache a token, in both periods."""
    for name in sorted({*both[0].cells, *both[1].cells}):
        cells = [period.cells.get(name) for period in both]
        present = [cell if cell is not None and cell.useful_tokens else None for cell in cells]
        if not any(present):
            continue
        shares = [Fraction(cell.useful_tokens, volume) if cell else Fraction(0) for cell, volume in zip(present, volumes, strict=True)]
        told: list[tuple[Fraction, Fraction] | None] = [None, None]
        for place, (cell, period) in enumerate(zip(present, both, strict=True)):
            if cell:
                saved = Fraction(cell.saved_atoms) / period.price / cell.useful_tokens if period.price else Fraction(0)
                told[place] = (Fraction(cell.useful_ns, cell.useful_tokens) + saved, saved)
        first, last = told[0] or told[1], told[1] or told[0]
        assert first and last
        yield shares, [first[0], last[0]], [first[1], last[1]]


def _shapley(cost: Mapping[Choice, Fraction], place: int) -> Fraction:
    count = len(FACTORS)
    total = Fraction(0)
    for choice, value in cost.items():
        if choice[place]:
            others = sum(choice) - 1
            without = (*choice[:place], 0, *choice[place + 1 :])
            total += Fraction(factorial(others) * factorial(count - others - 1), factorial(count)) * (value - cost[without])
    return total


def _rounded(shares: Sequence[Fraction]) -> list[int]:
    """Whole atoms with the same sum, by largest remainder; ties by order."""
    whole = [share.__floor__() for share in shares]
    missing = int(sum(shares)) - sum(whole)
    largest = sorted(range(len(shares)), key=lambda n: (whole[n] - shares[n], n))
    for n in largest[:missing]:
        whole[n] += 1
    return whole
