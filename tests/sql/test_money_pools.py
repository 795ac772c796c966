"""Money of power, links, KV storage, gateways, overhead and reservations: the SQL against the slow oracle, and its promises one by one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipeline.attribution.money import allocate, check_conservation
from pipeline.attribution.scope import Scope
from pipeline.store.client import Store
from tests.conftest import empty
from tests.oracle import money as gpu_oracle
from tests.oracle.money import Attempt, Held, Price
from tests.oracle.pools import Energy, Facts, Machine, PoolPrice, Pools, allocate_pools
from tests.sql.gpu_facts import FOREVER, HELD, LLAMA, PRICE, REPLICAS, WINDOW, WINDOWS, S, T, fill, scope, served
from tests.sql.test_money import attempts_of, machines, moments

H = 3600 * S
USD = 10**12
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
END = T + WINDOWS * WINDOW


def fill_pools(
    store: Store,
    attempts: Sequence[Attempt],
    rows: Sequence[Machine],
    gpu_prices: Sequence[Price],
    prices: Sequence[PoolPrice],
    energy: Sequence[Energy] = (),
    moved: Mapping[tuple[str, str], int] | None = None,
) -> None:
    fill(store, attempts, [row.held for row in rows], gpu_prices)
    own = {(row.held.replica, row.held.from_ns): row for row in rows}
    inventory = store.query("SELECT * FROM inventory").dicts()
    store.command("TRUNCATE TABLE inventory")
    store.insert_rows(
        "inventory",
        [
            {
                **row,
                "watts_busy": (one := own[row["replica"], row["from_ns"]]).watts_busy,
                "watts_idle": one.watts_idle,
                "reserved_tenant": one.reserved_tenant,
                "reserved_gpus": one.reserved_gpus,
            }
            for row in inventory
        ],
    )
    store.insert_rows(
        "pool_prices",
        [
            {
                "config_hash": "c", "pool": p.pool, "resource": p.resource, "kind": p.kind, "price_id": p.price_id, "currency": "USD",
                "basis": p.basis, "atoms": str(p.atoms), "replicas": list(p.replicas), "gpus": list(p.gpus), "time_zone": p.time_zone,
                "hours": list(p.hours), "from_ns": p.from_ns, "to_ns": p.to_ns,
            }
            for p in prices
        ],
    )  # fmt: skip
    store.insert_rows(
        "work_measures",
        [
            {
                "window_from": e.window // S, "run_id": 7, "quantity": "gpu_energy_joules", "unit": "J", "host": "h", "replica": e.replica,
                "device": e.device, "value": e.joules, "covered_ns": e.covered_ns,
            }
            for e in energy
        ],
    )  # fmt: skip
    store.insert_rows("work_moved_bytes", [{"attempt_id": a, "link": link, "bytes": n} for (a, link), n in (moved or {}).items()])


def pools(store: Store) -> dict[tuple[int, str, str, str], tuple[int, int, bool]]:
    columns = "toUnixTimestamp(window_from), toString(pool), resource, price_id, atoms, busy_atoms, priced"
    sql = f"SELECT {columns} FROM work_pools WHERE pool != 'gpu'"
    return {(w * S, *key): (atoms, busy, bool(priced)) for w, *key, atoms, busy, priced in store.query(sql).rows}


def ledger(store: Store) -> dict[tuple[int, str, str, str, str, str], int]:
    """Everything but attempts' GPU time, which tests/sql/test_money.py compares."""
    sql = (
        "SELECT toUnixTimestamp(window_from), toString(pool), resource, attempt_id, tenant, toString(class), sum(atoms) FROM work_ledger"
        " WHERE pool != 'gpu' OR class IN ('idle', 'idle_reserved') GROUP BY ALL"
    )
    return {(w * S, *key): atoms for w, *key, atoms in store.query(sql).rows}


def book(
    store: Store,
    attempts: Sequence[Attempt],
    rows: Sequence[Machine],
    prices: Sequence[PoolPrice],
    energy: Sequence[Energy] = (),
    moved: Mapping[tuple[str, str], int] | None = None,
    gpu_prices: Sequence[Price] = (PRICE,),
) -> Pools:
    """Runs SQL and oracle on the same facts and asserts that they say the same."""
    fill_pools(store, attempts, rows, gpu_prices, prices, energy, moved)
    allocate(store, scope())
    gpu = gpu_oracle.allocate(attempts, [row.held for row in rows], gpu_prices, (T, END), WINDOW, S, 3600 * S)
    wanted = allocate_pools(Facts(attempts, rows, gpu_prices, prices, energy, moved or {}, (T, END, WINDOW), 3600 * S), gpu)
    assert pools(store) == wanted.pools
    assert {key: atoms for key, atoms in ledger(store).items() if atoms} == {key: atoms for key, atoms in wanted.ledger.items() if atoms}
    return wanted


amounts = st.sampled_from([0, 1, 7, 10**9 + 7, 123_456_789_012])


@st.composite
def pool_prices(draw: st.DrawFn) -> list[PoolPrice]:
    found = []
    shapes = [
        ("power", "", "kwh", ""), ("gateway", "edge", "hour", ""), ("network", "fabric", "hour", "nic"),
        ("network", "out", "gib", "egress"), ("kv_storage", "dram", "hour", "host"),
        ("overhead", "crew", "month", "staff"), ("overhead", "hall", "hour", "facility"),
    ]  # fmt: skip
    for pool, resource, basis, kind in shapes:
        begin = draw(st.sampled_from([0, T - 7, T - 40 * 86_400 * S]))
        for n, edge in enumerate([*sorted({T + draw(moments) for _ in range(draw(st.integers(0, 2)))}), FOREVER]):
            if draw(st.integers(0, 4)) and begin < edge:
                own = () if pool in ("gateway", "overhead") else draw(st.sampled_from([(), (), ("r0",), ("r1", "r2")]))
                hours = draw(st.sampled_from([(), (), (0,), (5,)])) if pool == "power" else ()
                zone = draw(st.sampled_from(["UTC", "Asia/Kolkata"]))
                found.append(
                    PoolPrice(
                        pool,
                        f"{resource}{n}",
                        draw(amounts if basis in ("kwh", "gib") else amounts | st.just(10**22)),
                        begin,
                        edge,
                        resource,
                        basis,
                        kind,
                        own,
                        (),
                        zone,
                        hours,
                    )
                )
            begin = edge
    return found


@st.composite
def facts(draw: st.DrawFn) -> tuple[list[Attempt], list[Machine], list[Price], list[PoolPrice], list[Energy], dict[tuple[str, str], int]]:
    attempts = [replace(one, tenant=draw(st.sampled_from(["t", "u"]))) for one in draw(attempts_of([*REPLICAS, "unlisted"]))]
    held, gpu_prices = draw(machines())
    rows = [
        Machine(
            one,
            *draw(st.sampled_from([(0, 0), (700, 0), (5600, 560), (1, 1), (10**8, 10**8)])),
            *draw(st.sampled_from([("", 0), ("t", one.gpus), ("u", 1), ("v", one.gpus)])),
        )
        for one in held
    ]
    energy = [
        Energy(
            T + n * WINDOW,
            replica,
            f"gpu{device}",
            draw(st.sampled_from([0, 1, 42_000, 10**9])),
            draw(st.sampled_from([1, WINDOW // 3, WINDOW])),
        )
        for n in range(WINDOWS)
        for replica in REPLICAS[:2]
        for device in range(draw(st.sampled_from([0, 1, 8])))
    ]
    moved = {
        (one.attempt_id, link): draw(st.sampled_from([0, 1, 2**30, 2**50]))
        for one in attempts
        for link in draw(st.sampled_from([(), ("nic", "egress")]))
    }
    return attempts, rows, gpu_prices, draw(pool_prices()), energy, moved


@settings(max_examples=8, deadline=None, phases=(Phase.generate,), suppress_health_check=SLOW)
@given(found=facts())
def test_sql_and_oracle_agree_to_the_atom_in_every_pool(
    store: Store,
    found: tuple[list[Attempt], list[Machine], list[Price], list[PoolPrice], list[Energy], dict[tuple[str, str], int]],
) -> None:
    empty(store)
    attempts, rows, gpu_prices, prices, energy, moved = found
    wanted = book(store, attempts, rows, prices, energy, moved, gpu_prices)
    cost: dict[tuple[int, str, str], int] = defaultdict(int)
    for (window, pool, resource, _), (atoms, _, _) in wanted.pools.items():
        cost[window, pool, resource] += atoms
    spent: dict[tuple[int, str, str], int] = defaultdict(int)
    for (window, pool, resource, *_), atoms in wanted.ledger.items():
        if pool != "gpu":
            spent[window, pool, resource] += atoms
    assert {key: atoms for key, atoms in spent.items() if atoms} == {key: atoms for key, atoms in cost.items() if atoms}


BUSY = Machine(HELD, watts_busy=5600, watts_idle=800)


def test_power_follows_gpu_time_and_idle_watts_are_idle(store: Store) -> None:
    """20 of 60 s busy at 5,600 W, 40 s idle at 800 W: 144,000 J = 0.04 kWh."""
    found = book(store, [served("a", "r0", 0, S, 20 * S, 500, 100)], [BUSY], [PoolPrice("power", "p", USD // 5, 0, FOREVER, basis="kwh")])
    assert found.pools[T, "power", "r0", "p"] == (8 * USD // 1000, 8 * USD // 1000 * 112 // 144, True)
    rows = store.query(
        "SELECT attempt_id, tenant, toString(class), toString(stage), toString(payer), toString(tier), atoms FROM work_ledger"
        " WHERE pool = 'power' AND window_from = {at:DateTime('UTC')} ORDER BY attempt_id DESC",
        {"at": "2026-11-02 00:00:00"},
    ).rows
    assert rows == (
        ("a", "t", "useful", "other", "tenant", "B", 6_222_222_222),
        ("", "", "idle", "schedule", "platform", "none", 1_777_777_778),
    )
    assert store.query("SELECT sum(busy_ns), sum(capacity_ns) FROM work_pools WHERE pool = 'power'").rows == ((0, 0),)


def test_busy_time_that_nobody_answers_for_carries_its_own_power(store: Store) -> None:
    long = Attempt("a", "r0", T - 2000 * S, T + 1000 * S, last_token_ns=T + 1000 * S)
    rows = [Machine(Held("r0", "h100", 8, a, b, None), 700, 70) for a, b in ((T - S, T + 5), (T + 5, FOREVER))]
    book(store, [long], rows, [PoolPrice("power", "p", 10**18, 0, FOREVER, basis="kwh")])
    found = ledger(store)
    assert found[T, "power", "r0", "", "", "unattributed"] == 700 * 5 * 10**18 // (3600 * 10**12)
    assert found[T, "power", "r0", "a", "t", "useful"] > 10**15


def test_counted_energy_replaces_watts_where_every_gpu_tells_half_of_the_time(store: Store) -> None:
    tariff = [PoolPrice("power", "p", USD, 0, FOREVER, basis="kwh")]
    row = Machine(Held("r0", "h100", 2, T - S, FOREVER, LLAMA), 1400, 200)
    told = [Energy(T, "r0", f"gpu{n}", 36_000, WINDOW) for n in range(2)]
    assert book(store, [], [row], tariff, told).pools[T, "power", "r0", "p"][0] == USD // 50
    for meters, joules in ((told[:1], 200 * 60), ([*told[:1], replace(told[1], covered_ns=WINDOW // 2 - 1)], 200 * 60)):
        empty(store)
        assert book(store, [], [row], tariff, meters).pools[T, "power", "r0", "p"][0] == joules * USD // 3_600_000
    empty(store)
    assert (
        book(store, [], [row], tariff, [told[0], replace(told[1], covered_ns=WINDOW // 2)]).pools[T, "power", "r0", "p"][0]
        == 108 * USD // 3600
    )


def test_power_without_watts_or_counters_has_no_price_rather_than_none(store: Store) -> None:
    found = book(store, [], [Machine(HELD, watts_busy=700)], [PoolPrice("power", "p", USD, 0, FOREVER, basis="kwh")])
    assert found.pools[T, "power", "r0", "p"] == (0, 0, False)


def test_a_tariff_by_hour_follows_the_clock_through_the_end_of_summer_time(store: Store) -> None:
    """Berlin, 25 October 2026: 2:00 comes twice, at 00:00 and 01:00 UTC. Day 03-02, night 02-03."""
    begin = 1_792_886_400 * S - 2 * H  # 2026-10-24T22:00Z, midnight in Berlin
    night = PoolPrice("power", "night", USD, 0, FOREVER, basis="kwh", time_zone="Europe/Berlin", hours=(2,))
    day = PoolPrice(
        "power", "day", 2 * USD, 0, FOREVER, basis="kwh", time_zone="Europe/Berlin", hours=tuple(h for h in range(24) if h != 2)
    )
    fill_pools(store, [], [Machine(Held("r0", "h100", 8, begin, FOREVER, LLAMA), 8000, 1000)], [PRICE], [night, day])
    allocate(store, Scope(7, "c", begin, begin + 6 * H, 2 * H, S, 300 * S, 3600 * S))
    cost: dict[int, dict[str, int]] = defaultdict(dict)
    for (window, _, _, price), (atoms, _, _) in pools(store).items():
        cost[window][price] = atoms
    assert cost == {begin: {"day": 4 * USD}, begin + 2 * H: {"night": 2 * USD}, begin + 4 * H: {"day": 4 * USD}}


def test_gateways_are_paid_by_attempts_of_requests_that_came_through_them_and_else_by_nobody(store: Store) -> None:
    attempts = [served("a", "r0", 0, S, 2 * S, 5, 1), served("b", "r0", 1, S, 2 * S, 9000, 900), served("c", "r0", 2, S, 2 * S, 5, 1)]
    found = book(store, attempts, [BUSY], [PoolPrice("gateway", "g", 6000, 0, FOREVER, "edge")])
    assert [found.ledger[T, "gateway", "edge", name, "t", "useful"] for name in "abc"] == [34, 33, 33]
    assert found.ledger[T + WINDOW, "gateway", "edge", "", "", "unattributed"] == 100
    empty(store)
    fill_pools(store, attempts, [BUSY], [PRICE], [PoolPrice("gateway", "g", 6000, 0, FOREVER, "edge")])
    store.command("INSERT INTO work_attempts SELECT * REPLACE ('principal' AS tenant_source, 'd' AS attempt_id) FROM work_attempts LIMIT 1")
    allocate(store, scope())
    assert {key[3] for key in ledger(store) if key[1] == "gateway"} == {"a", "b", "c", ""}


def test_storage_is_paid_by_context_and_time(store: Store) -> None:
    """No token is decoded: b's context is twice a's, for half of the time; c's is a's, three times as long."""
    attempts = [
        served("a", "r0", 0, 20 * S, 20 * S, 1000, 1),
        served("b", "r0", 0, 10 * S, 10 * S, 2000, 1),
        served("c", "r0", 0, 60 * S, 60 * S, 1000, 1),
    ]
    found = book(store, attempts, [BUSY], [PoolPrice("kv_storage", "k", 60_000, 0, FOREVER, "dram", kind="host")])
    assert [found.ledger[T, "kv_storage", "dram", name, "t", "useful"] for name in "abc"] == [200, 200, 600]


def test_network_is_paid_by_the_bytes_that_are_told_and_else_unattributed_or_unpriced(store: Store) -> None:
    ports, egress = (
        PoolPrice("network", "n", 6000, 0, FOREVER, "fabric", kind="nic"),
        PoolPrice("network", "e", 80, 0, FOREVER, "out", "gib", "egress"),
    )
    attempts = [served("a", "r0", 0, S, 2 * S, 5, 1), served("b", "r0", 1, S, 2 * S, 5, 1)]
    found = book(store, attempts, [BUSY], [ports, egress], moved={("a", "nic"): 3, ("b", "nic"): 1, ("b", "egress"): 2**31})
    assert [found.ledger[T, "network", "fabric", name, "t", "useful"] for name in "ab"] == [75, 25]
    assert found.pools[T, "network", "out", "e"] == (160, 160, True)
    assert found.ledger[T, "network", "out", "b", "t", "useful"] == 160
    empty(store)
    found = book(store, attempts, [BUSY], [ports, egress])
    assert found.ledger[T, "network", "fabric", "", "", "unattributed"] == 100
    assert found.pools[T, "network", "out", "e"] == (0, 0, False)


def test_a_month_of_overhead_costs_its_price_whatever_its_length(store: Store) -> None:
    day = 86_400 * S
    for begin, days in ((1_793_491_200 * S, 30), (1_801_440_000 * S, 28)):  # November 2026, February 2027
        empty(store)
        fill_pools(store, [], [], [], [PoolPrice("overhead", "o", 10**12 + 1, begin - 40 * day, FOREVER, "crew", "month", "staff")])
        allocate(store, Scope(7, "c", begin, begin + days * day, day, S, 300 * S, 3600 * S))
        assert sum(atoms for atoms, _, _ in pools(store).values()) == 10**12 + 1
        assert {key[5] for key in ledger(store)} == {"overhead"}


def test_classes_and_payers_in_every_pool_are_those_of_the_attempt(store: Store) -> None:
    wasteful = served("a", "r0", 0, S, 10 * S, 600, 100, recompute_tokens=200, outcome="failed")
    prices = [PoolPrice("power", "p", USD, 0, FOREVER, basis="kwh"), PoolPrice("gateway", "g", USD, 0, FOREVER, "edge")]
    book(store, [wasteful], [BUSY], prices)
    rows = store.query(
        "SELECT toString(pool), groupArray((toString(class), toString(stage), toString(payer))) FROM"
        " (SELECT * FROM work_ledger WHERE attempt_id = 'a' ORDER BY class) GROUP BY pool ORDER BY pool"
    ).rows
    assert [pool for pool, _ in rows] == ["gpu", "power", "gateway"]
    assert {tuple(told) for _, told in rows} == {(("failed", "decode", "platform"), ("recompute", "kv_cache", "platform"))}


def test_idle_time_below_a_reservation_is_the_tenants_and_the_rest_is_nobodys(store: Store) -> None:
    """t reserved half of the replica: 30 s of 60. It used 20 s, u 16 s. Idle 24 s, of which 10 are t's."""
    row = Machine(HELD, reserved_tenant="t", reserved_gpus=4)
    attempts = [served("a", "r0", 0, 20 * S, 20 * S, 900, 1), served("b", "r0", 30 * S, 46 * S, 46 * S, 900, 1, tenant="u")]
    book(store, attempts, [row], [])
    second = Fraction(8 * 2_490_000_000_000, 3600)
    found = ledger(store)
    for at, own, rest in ((T, 10, 14), (T + WINDOW, 30, 30)):  # each busy slot rounds down
        assert abs(found[at, "gpu", "r0", "", "t", "idle_reserved"] - own * second) < 60
        assert abs(found[at, "gpu", "r0", "", "", "idle"] - rest * second) < 60
    sql = "SELECT DISTINCT model, toString(stage), toString(payer) FROM work_ledger WHERE class = 'idle_reserved'"
    assert store.query(sql).rows == (("model 0", "schedule", "tenant"),)


def test_a_tenant_that_used_what_it_reserved_pays_no_idle_time(store: Store) -> None:
    row = Machine(HELD, reserved_tenant="t", reserved_gpus=2)
    book(store, [served("a", "r0", 0, 16 * S, 16 * S, 900, 1)], [row], [])
    assert (T, "gpu", "r0", "", "t", "idle_reserved") not in ledger(store)


def test_two_tenants_that_reserved_more_than_stood_idle_share_what_did(store: Store) -> None:
    """The replica changes hands after 40 s. t used nothing of 40, u nothing of 20; v kept it busy for 30."""
    rows = [
        Machine(Held("r0", "h100", 8, T - S, T + 40 * S, LLAMA), reserved_tenant="t", reserved_gpus=8),
        Machine(Held("r0", "h100", 8, T + 40 * S, FOREVER, LLAMA), reserved_tenant="u", reserved_gpus=8),
    ]
    book(store, [served("a", "r0", 0, 30 * S, 30 * S, 900, 1, tenant="v")], rows, [])
    found = ledger(store)
    idle = 30 * 8 * 2_490_000_000_000 // 3600
    assert (found[T, "gpu", "r0", "", "t", "idle_reserved"], found[T, "gpu", "r0", "", "u", "idle_reserved"]) == (idle * 2 // 3, idle // 3)
    assert (T, "gpu", "r0", "", "", "idle") not in found


@pytest.mark.parametrize(
    ("price", "words"),
    [
        (PoolPrice("overhead", "o", 10**23, 0, FOREVER, "crew", "hour", "staff"), "check its amounts"),
        (PoolPrice("power", "p", 10**24, 0, FOREVER, basis="kwh"), "check usd_per_kwh"),
    ],
)
def test_money_beyond_any_bill_stops_the_run_and_says_where_to_look(store: Store, price: PoolPrice, words: str) -> None:
    fill_pools(store, [], [BUSY], [PRICE], [price])
    with pytest.raises(DatabaseError, match=words):
        allocate(store, scope())


def test_pools_change_no_ledger_row_of_gpu_time_and_running_twice_gives_equal_rows(store: Store) -> None:
    attempts = [served(f"a{n}", "r0", n * S, (n + 2) * S, (n + 9) * S, 300 * n, 40) for n in range(5)]
    gpu_rows = "SELECT * FROM work_ledger WHERE pool = 'gpu' ORDER BY ALL"
    fill_pools(store, attempts, [BUSY], [PRICE], [])
    allocate(store, scope())
    plain = store.query("SELECT * FROM work_ledger ORDER BY ALL").rows
    empty(store)
    fill_pools(
        store,
        attempts,
        [BUSY],
        [PRICE],
        [PoolPrice("gateway", "g", USD, 0, FOREVER, "edge"), PoolPrice("power", "p", USD, 0, FOREVER, basis="kwh")],
    )
    allocate(store, scope())
    assert store.query(gpu_rows).rows == plain
    every = store.query("SELECT * FROM work_ledger ORDER BY ALL").rows
    assert len(every) > len(plain)
    allocate(store, scope())
    assert store.query("SELECT * FROM work_ledger ORDER BY ALL").rows == every
    check_conservation(store)
