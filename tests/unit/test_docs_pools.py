"""The page on the other pools: its worked example is recomputed by the oracle, its names are those of the code."""

import re
from pathlib import Path

from schemas.usage import POOLS
from tests.oracle import money
from tests.oracle.money import Attempt, Constants, Held, Price
from tests.oracle.pools import Facts, Machine, PoolPrice, allocate_pools

PAGE = Path(__file__).parents[2] / "docs" / "allocation" / "pools.md"
TEXT = PAGE.read_text(encoding="utf-8")
S, USD = 1_000_000_000, 10**12
T = 1_793_491_200 * S  # 2026-11-01T00:00:00Z
WINDOW, FOREVER = 900 * S, 2**63 - 1


def cells(name: str, columns: int) -> list[str]:
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("|"))
    (found,) = [row[1:] for row in rows if row[0] == name and len(row) == columns and re.search(r"\d$|^0$", row[-1])]
    return found


def test_the_worked_example_is_what_the_oracle_says() -> None:
    constants = Constants(10**15, 10**12, 8192, 10**11, 10**11, 1000)
    held, price = Held("r", "g", 4, T, FOREVER, constants), Price("p", "g", 249 * USD // 100, 0, FOREVER)
    attempts = [
        Attempt("a", "r", T, T + 200 * S, T, T + 200 * S, T + 200 * S, input_tokens=6000, output_tokens=1, tenant="acme"),
        Attempt("b", "r", T, T + 300 * S, T + 200 * S, T + 300 * S, T + 300 * S, input_tokens=3000, output_tokens=1, tenant="globex"),
        Attempt("c", "r", T, T + 5 * S, input_tokens=10, outcome="failed", tenant="globex"),
    ]
    prices = [
        PoolPrice("power", "1", USD // 4, 0, FOREVER, basis="kwh"),
        PoolPrice("gateway", "2", 34 * USD // 100, T, FOREVER, "edge"),
        PoolPrice("kv_storage", "3", 2048 * USD // 1000, T, FOREVER, "dram"),
        PoolPrice("network", "4", 4 * USD // 10, T, FOREVER, "fabric", kind="nic"),
        PoolPrice("overhead", "5", 9000 * USD, T, FOREVER, "crew", "month", "staff"),
    ]
    gpu = money.allocate(attempts, [held], [price], (T, T + WINDOW), WINDOW, S, 3600 * S)
    machine = Machine(held, 2800, 400, "acme", 2)
    found = allocate_pools(Facts(attempts, [machine], [price], prices, (), {}, (T, T + WINDOW, WINDOW), 3600 * S), gpu)
    for pool in POOLS[1:]:
        shares = dict.fromkeys(("a", "b", "c", ""), 0)
        for (_, name, _, attempt, *_), atoms in found.ledger.items():
            if name == pool:
                shares[attempt] += atoms
        cost = sum(atoms for (_, name, *_), (atoms, *_) in found.pools.items() if name == pool)
        assert cells(pool, 3)[1:] == [f"{cost:,}"]
        assert cells(pool, 5) == [f"{atoms:,}" for atoms in shares.values()]
        assert sum(shares.values()) == cost
    reserved, rest = (found.ledger[T, "gpu", "r", "", *of] for of in (("acme", "idle_reserved"), ("", "idle")))
    assert cells("`idle_reserved` of acme, 250 of 600", 2) == [f"{reserved:,}"]
    assert cells("`idle`, 350 of 600", 2) == [f"{rest:,}"]
    assert f"so {reserved + rest:,} are idle" in TEXT


def test_every_pool_and_file_that_the_page_names_exists() -> None:
    assert re.findall(r"^\| `(\w+)` \|.*time", TEXT, re.MULTILINE) == ["power", "gateway", "kv_storage", "network", "overhead"]
    root = PAGE.parents[2]
    named = re.findall(r"`((?:pipeline|tests)/[^`]+\.(?:sql|py))`", TEXT)
    assert named
    assert [name for name in named if not list(root.glob(name))] == []
