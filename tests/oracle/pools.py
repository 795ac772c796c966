"""The slow way to divide what is not GPU time: power, links, KV storage, gateways, overhead, and idle time that a tenant reserved.

Plain Python over the books that tests/oracle/money.py made of GPU time; pipeline/attribution/sql/money/3*.sql must agree to the atom.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from tests.oracle.money import HOUR_NS, TOKENS_MAX, Attempt, Books, Held, Piece, Price, classes, cut_by_price, pieces_of, union_length

MINUTE_NS = 60_000_000_000
KWH_NJ = 3_600_000 * 10**9
GIB = 2**30


@dataclass(frozen=True)
class Machine:
    """What an inventory row says besides `Held`. Watts of the whole replica, 0: unknown."""

    held: Held
    watts_busy: int = 0
    watts_idle: int = 0
    reserved_tenant: str = ""
    reserved_gpus: int = 0


@dataclass(frozen=True)
class PoolPrice:
    pool: str
    price_id: str
    atoms: int
    from_ns: int
    to_ns: int
    resource: str = ""
    basis: str = "hour"
    kind: str = ""
    replicas: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    time_zone: str = "UTC"
    hours: tuple[int, ...] = ()


@dataclass(frozen=True)
class Energy:
    """What one GPU's counter tells of a window."""

    window: int
    replica: str
    device: str
    joules: int
    covered_ns: int


@dataclass
class Pools:
    """pools: (window, pool, resource, price_id) -> atoms, of these busy, priced.

    shares: (window, pool, resource) -> (attempt, tier) -> atoms. ledger: (window, pool, resource, attempt, tenant, class) -> atoms.
    """

    pools: dict[tuple[int, str, str, str], tuple[int, int, bool]] = field(default_factory=dict)
    shares: dict[tuple[int, str, str], dict[tuple[str, str], int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    ledger: dict[tuple[int, str, str, str, str, str], int] = field(default_factory=lambda: defaultdict(int))


@dataclass(frozen=True)
class Facts:
    attempts: Sequence[Attempt]
    machines: Sequence[Machine]
    gpu_prices: Sequence[Price]
    prices: Sequence[PoolPrice]
    energy: Sequence[Energy]
    moved: Mapping[tuple[str, str], int]  # attempt, link -> bytes
    windows: tuple[int, int, int]  # from, to, length
    max_attempt_ns: int


def allocate_pools(facts: Facts, gpu: Books) -> Pools:
    """The other pools beside `gpu`, and the GPU pool's idle money by who reserved it."""
    found = Pools()
    from_ns, to_ns, length = facts.windows
    segments = {machine: cut_by_price(machine.held, facts.gpu_prices) for machine in facts.machines}
    every = [segment for own in segments.values() for segment in own]
    pieces = [piece for one in facts.attempts for piece in pieces_of(one, every, from_ns, to_ns, facts.max_attempt_ns)]
    for window in range(from_ns, to_ns, length):
        _idle(found, facts, gpu, window)
        for replica in sorted({machine.held.replica for machine in facts.machines}):
            _power(found, facts, gpu, pieces, replica, window)
        for price in facts.prices:
            if price.pool != "power":
                _other(found, facts, pieces, price, window)
    _classify(found, facts)
    return found


def divide(amount: int, claims: Mapping[Any, int]) -> dict[Any, int]:
    """Largest remainder in fractions, ties by key."""
    whole = sum(claims.values())
    exact = {key: Fraction(amount * claim, whole) for key, claim in claims.items()}
    parts = {key: value.__floor__() for key, value in exact.items()}
    for key in sorted(exact, key=lambda key: (parts[key] - exact[key], key))[: amount - sum(parts.values())]:
        parts[key] += 1
    return parts


def _classify(found: Pools, facts: Facts) -> None:
    """An attempt's classes, of all that it has of a resource together."""
    by_id = {attempt.attempt_id: attempt for attempt in facts.attempts}
    for place, shares in found.shares.items():
        for (name, _), atoms in shares.items():
            attempt = by_id.get(name)
            for kind, _, part in classes(attempt, 0, atoms) if atoms else ():
                found.ledger[*place, name, attempt.tenant if attempt else "", kind] += part


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> int:
    return max(0, min(a[1], b[1]) - max(a[0], b[0]))


def _busy(pieces: Sequence[Piece], held: Held, window: tuple[int, int]) -> int:
    """Time in which an attempt was live on the replica while the row held."""
    low, high = max(window[0], held.from_ns), min(window[1], held.to_ns)
    own = [p for p in pieces if p.replica == held.replica and p.segment]
    return union_length((max(p.from_ns, low), min(p.to_ns, high)) for p in own if min(p.to_ns, high) > max(p.from_ns, low))


def _power(found: Pools, facts: Facts, gpu: Books, pieces: Sequence[Piece], replica: str, at: int) -> None:
    window = (at, at + facts.windows[2])
    rows = [m for m in facts.machines if m.held.replica == replica and _overlap((m.held.from_ns, m.held.to_ns), window)]
    held = sum(_overlap((m.held.from_ns, m.held.to_ns), window) for m in rows)
    if not held:
        return
    busy_of = {m: _busy(pieces, m.held, window) for m in rows}
    idle_of = {m: _overlap((m.held.from_ns, m.held.to_ns), window) - busy_of[m] for m in rows}
    watts_known = all(m.watts_busy and m.watts_idle for m in rows)
    if watts_known:
        claims = {
            "0 busy": sum(m.watts_busy * ns for m, ns in busy_of.items()),
            "1 idle": sum(m.watts_idle * ns for m, ns in idle_of.items()),
        }
    else:
        claims = {"0 busy": sum(busy_of.values()), "1 idle": sum(idle_of.values())}
    meters = [e for e in facts.energy if (e.window, e.replica) == (at, replica)]
    gpus = max(m.held.gpus for m in rows)
    counted = meters and len({e.device for e in meters}) >= gpus and all(2 * e.covered_ns >= held for e in meters)
    energy = sum(e.joules * 10**9 * held // e.covered_ns for e in meters) if counted else sum(claims.values()) if watts_known else 0
    busy_money = 0
    for price in facts.prices:
        ns = sum(
            _overlap(stretch, (m.held.from_ns, m.held.to_ns))
            for m in rows
            if price.pool == "power" and replica in (price.replicas or (replica,)) and m.held.gpu in (price.gpus or (m.held.gpu,))
            for stretch in _holding(price, window)
        )
        if ns:
            cost = (Fraction(price.atoms * energy * ns) / held / KWH_NJ).__floor__()
            parts = divide(cost, claims)
            found.pools[at, "power", replica, price.price_id] = cost, parts["0 busy"], bool(counted or watts_known)
            busy_money += parts["0 busy"]
            found.ledger[at, "power", replica, "", "", "idle"] += parts["1 idle"]
    shares: dict[tuple[str, str], int] = defaultdict(int)
    for (when, resource, attempt, _, tier), (ns, _) in gpu.ledger.items():
        if (when, resource) == (at, replica) and ns:
            shares[attempt, tier] += ns
    if busy_money:
        found.shares[at, "power", replica] = divide(busy_money, shares)


def _holding(price: PoolPrice, window: tuple[int, int]) -> list[tuple[int, int]]:
    """Minute by minute: when in the window the price's hours are on the clock."""
    low, high = max(window[0], price.from_ns), min(window[1], price.to_ns)
    if not price.hours:
        return [(low, high)] if low < high else []
    zone = ZoneInfo(price.time_zone)
    return [
        (max(low, minute), min(high, minute + MINUTE_NS))
        for minute in range(low - low % MINUTE_NS, high, MINUTE_NS)
        if datetime.fromtimestamp(minute // 10**9, UTC).astimezone(zone).hour in price.hours
    ]


def _other(found: Pools, facts: Facts, pieces: Sequence[Piece], price: PoolPrice, at: int) -> None:
    low, high = max(at, price.from_ns), min(at + facts.windows[2], price.to_ns)
    if low >= high:
        return
    claims = {name: claim for name, claim in _claims(facts, pieces, price, at).items() if claim}
    priced = True
    if price.basis == "gib":
        atoms, priced = price.atoms * sum(claims.values()) // GIB, bool(claims)
    else:
        start, period = price.from_ns, HOUR_NS
        if price.basis == "month":
            month = datetime.fromtimestamp(at // 10**9, UTC).replace(day=1, hour=0, minute=0, second=0)
            after = month.replace(year=month.year + month.month // 12, month=month.month % 12 + 1)
            start, period = max(start, int(month.timestamp()) * 10**9), int((after - month).total_seconds()) * 10**9
        atoms = price.atoms * (high - start) // period - price.atoms * (low - start) // period
    busy = 0 if price.pool == "overhead" else atoms
    found.pools[at, price.pool, price.resource, price.price_id] = atoms, busy, priced
    place = (at, price.pool, price.resource)
    if price.pool == "overhead":
        found.ledger[*place, "", "", "overhead"] += atoms
    else:
        for name, part in (divide(atoms, claims) if claims else {"": atoms}).items():
            found.shares[place][name, ""] += part


def _claims(facts: Facts, pieces: Sequence[Piece], price: PoolPrice, at: int) -> dict[str, int]:
    claims: dict[str, int] = defaultdict(int)
    if price.pool == "kv_storage":
        for piece in pieces:
            constants = piece.segment.constants if piece.segment else None
            a = max(piece.from_ns, at, price.from_ns)
            b = min(piece.to_ns, at + facts.windows[2], price.to_ns)
            if constants and a < b and piece.replica in (price.replicas or (piece.replica,)):
                context = 2 * min(piece.attempt.input_tokens or 0, TOKENS_MAX) + _decoded(piece, a) + _decoded(piece, b)
                claims[piece.attempt.attempt_id] += constants.kv_bytes_per_token * context * (b - a)
        return claims
    for attempt in facts.attempts:
        if attempt.started_ns // facts.windows[2] * facts.windows[2] != at or not price.from_ns <= attempt.started_ns < price.to_ns:
            continue
        if price.pool == "gateway":
            claims[attempt.attempt_id] = 1
        elif price.pool == "network" and attempt.replica in (price.replicas or (attempt.replica,)):
            claims[attempt.attempt_id] = facts.moved.get((attempt.attempt_id, price.kind), 0)
    return claims


def _decoded(piece: Piece, t: int) -> int:
    tokens = max(min(piece.attempt.output_tokens or 0, TOKENS_MAX) - 1, 0)
    return tokens * (piece.before[1] + max(t, piece.leg[1]) - piece.leg[1]) // max(piece.total[1], 1)


def _idle(found: Pools, facts: Facts, gpu: Books, at: int) -> None:
    window = (at, at + facts.windows[2])
    for replica in sorted({resource for when, resource, *_ in gpu.pools if when == at}):
        own = [pool for (when, resource, *_), pool in gpu.pools.items() if (when, resource) == (at, replica)]
        money = sum(pool.atoms - pool.busy_atoms for pool in own)
        idle_ns = sum(pool.capacity_ns - pool.busy_ns for pool in own)
        reserved: dict[str, int] = defaultdict(int)
        for m in facts.machines:
            if m.held.replica == replica and m.reserved_tenant:
                reserved[m.reserved_tenant] += m.reserved_gpus * _overlap((m.held.from_ns, m.held.to_ns), window) // m.held.gpus
        tenants = {attempt.attempt_id: attempt.tenant for attempt in facts.attempts}
        short = {}
        for tenant, ns in reserved.items():
            used = sum(
                entry[0]
                for (when, resource, attempt, *_), entry in gpu.ledger.items()
                if (when, resource) == (at, replica) and tenants.get(attempt) == tenant
            )
            if ns > used:
                short[tenant] = ns - used
        claims = {"": max(idle_ns - sum(short.values()), 0), **short} if idle_ns and short else {"": 1}
        for tenant, part in divide(money, claims).items():
            found.ledger[at, "gpu", replica, "", tenant, "idle_reserved" if tenant else "idle"] += part
