"""Why the bill changed: parts sum to the difference, and one cause alone is named alone."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from math import factorial

from hypothesis import given
from hypothesis import strategies as st

from pipeline.reporting.change import FACTORS, Cell, Name, Period, change

ACME, GLOBEX = ("acme", "m"), ("globex", "m")


def period(cells: Mapping[Name, Cell], waste_ns: int = 0, idle_ns: int = 0, atoms_per_ns: int = 10, **pools: int) -> Period:
    capacity_ns = sum(cell.useful_ns for cell in cells.values()) + waste_ns + idle_ns
    return Period(cells, capacity_ns, idle_ns, capacity_ns * atoms_per_ns, pools)


BEFORE = period({ACME: Cell(100, 1000), GLOBEX: Cell(100, 3000)}, waste_ns=1000, idle_ns=5000)


def causes(after: Period, before: Period = BEFORE) -> dict[str, int]:
    parts = change(before, after)
    assert sum(parts.values()) == after.atoms - before.atoms
    return {name: atoms for name, atoms in parts.items() if atoms}


def test_one_cause_alone_is_named_alone() -> None:
    assert causes(BEFORE) == {}
    # 2 x the tokens with the same work, waste and idle time a token: 100,000 atoms more.
    twice = period({ACME: Cell(200, 2000), GLOBEX: Cell(200, 6000)}, waste_ns=2000, idle_ns=10_000)
    assert causes(twice) == {"volume": 100_000}
    assert causes(replace(BEFORE, gpu_atoms=110_000)) == {"price": 10_000}
    assert causes(period(BEFORE.cells, waste_ns=1000, idle_ns=4000)) == {"utilisation": -10_000}
    # acme's tokens take 12 ns instead of 10: useful 4200; waste (a quarter) 1050 and idle (as much as busy) follow it.
    slower = period({ACME: Cell(100, 1200), GLOBEX: Cell(100, 3000)}, waste_ns=1050, idle_ns=5250)
    assert causes(slower) == {"work": 5000}
    # The same 200 tokens, 50 of them moved to the dearer tenant: 500 + 4500 ns of work.
    moved = period({ACME: Cell(50, 500), GLOBEX: Cell(150, 4500)}, waste_ns=1250, idle_ns=6250)
    assert causes(moved) == {"mix": 25_000}
    wasteful = period(BEFORE.cells, waste_ns=2000, idle_ns=6000)
    assert causes(wasteful) == {"waste": 20_000}


def test_what_the_cache_saves_more_is_the_caches() -> None:
    """1,000 ns less useful time because the cache saved 1,000 ns (10,000 atoms at 10 atoms a ns) of it; waste and idle follow."""
    cached = period({ACME: Cell(100, 1000), GLOBEX: Cell(100, 2000, saved_atoms=10_000)}, waste_ns=750, idle_ns=3750)
    assert causes(cached) == {"cache": -25_000}


def test_other_pools_are_parts_by_themselves() -> None:
    assert causes(replace(BEFORE, pool_atoms={"overhead": 7, "power": 3}), replace(BEFORE, pool_atoms={"power": 10})) == {
        "overhead": 7,
        "power": -7,
    }


def test_a_tenant_that_comes_is_mix_and_volume_and_no_work() -> None:
    before = period({ACME: Cell(100, 1000)})
    parts = causes(period({ACME: Cell(100, 1000), GLOBEX: Cell(100, 3000)}), before)
    assert set(parts) == {"volume", "mix"}


def test_without_useful_tokens_in_one_period_everything_is_volume() -> None:
    parts = causes(period({ACME: Cell(100, 1000)}, idle_ns=500), period({}, idle_ns=500))
    assert parts == {"volume": 10_000}


def test_useful_time_without_tokens_goes_with_work() -> None:
    embedding = ("acme", "embed")
    before = period({ACME: Cell(100, 1000), embedding: Cell(0, 500)})
    assert causes(period({ACME: Cell(100, 1000), embedding: Cell(0, 700)}), before) == {"work": 2000}


cells = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["m", "n"])),
    st.builds(Cell, st.integers(0, 10**9), st.integers(0, 10**15), st.integers(0, 10**15)),
    max_size=5,
)
periods = st.builds(
    lambda cells, waste, idle, atoms, pools: Period(
        cells, sum(cell.useful_ns for cell in cells.values()) + waste + idle, idle, atoms if cells or waste or idle else 0, pools
    ),
    cells,
    st.integers(0, 10**15),
    st.integers(0, 10**15),
    st.integers(0, 10**18),
    st.dictionaries(st.sampled_from(["power", "overhead"]), st.integers(0, 10**15)),
)


@given(periods, periods)
def test_the_parts_sum_to_the_difference_to_the_atom(before: Period, after: Period) -> None:
    if before.capacity_ns == 0:
        before = replace(before, gpu_atoms=0)
    if after.capacity_ns == 0:
        after = replace(after, gpu_atoms=0)
    there, back = change(before, after), change(after, before)
    assert sum(there.values()) == after.atoms - before.atoms
    assert all(abs(there[name] + back[name]) <= 1 for name in FACTORS)  # the way back is the way there, but for the rounding


def test_the_parts_are_means_over_all_orders() -> None:
    """The slow way: change the factors one after the other in every order, each time at what the cost then is."""
    after = period({ACME: Cell(150, 1300, 900), GLOBEX: Cell(30, 1200)}, waste_ns=300, idle_ns=2500, atoms_per_ns=11)

    def cost(chosen: set[str]) -> Fraction:
        def of(name: str) -> Period:
            return after if name in chosen else BEFORE

        tokens = of("volume").useful_tokens
        useful = Fraction(0)
        for name in (ACME, GLOBEX):
            share = Fraction(of("mix").cells[name].useful_tokens, of("mix").useful_tokens)
            worker, saver = of("work"), of("cache")
            work = Fraction(worker.cells[name].useful_ns) + worker.cells[name].saved_atoms / worker.price
            saved = saver.cells[name].saved_atoms / saver.price
            useful += share * (work / worker.cells[name].useful_tokens - saved / saver.cells[name].useful_tokens)
        useful *= tokens
        waste = useful * Fraction(of("waste").waste_ns, of("waste").useful_ns)
        rest = of("utilisation")
        return of("price").price * (useful + waste) * (1 + Fraction(rest.idle_ns, rest.capacity_ns - rest.idle_ns))

    means = dict.fromkeys(FACTORS, Fraction(0))
    for order in permutations(FACTORS):
        done: set[str] = set()
        for name in order:
            earlier = cost(done)
            done.add(name)
            means[name] += cost(done) - earlier
    assert cost(set()) == BEFORE.atoms and cost(set(FACTORS)) == after.atoms
    found = causes(after)
    assert all(abs(found.get(name, 0) - means[name] / factorial(len(FACTORS))) < 1 for name in FACTORS)
