"""The cost book of one run: from work_attempts, inventory and prices to work_pools, work_ledger and work_savings.

Orders statements and checks their promise; all arithmetic is integer SQL (pipeline/attribution/sql/money).
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.attribution.pools import allocate_pools
from pipeline.attribution.scope import Scope
from pipeline.errors import CheckFailed
from pipeline.statements import statement
from pipeline.store.client import Store

SQL = "pipeline.attribution.sql.money"
SCRATCH = ("work_segments", "work_legs", "work_slots", "work_shares", "work_pools", "work_ledger", "work_savings")
ATTEMPTS_PER_CHUNK_MAX = 250_000  # 0.9 GB of engine memory; a slot is split within one chunk


@dataclass(frozen=True, slots=True)
class Chunk:
    """Replicas and a stretch of whole windows that are split by one statement."""

    replicas: tuple[str, ...]
    from_ns: int
    to_ns: int


def allocate(store: Store, scope: Scope, until_ns: int | None = None, attempts_per_chunk_max: int = ATTEMPTS_PER_CHUNK_MAX) -> None:
    """Fills the scratch tables of money for the windows `[scope.from_ns, scope.to_ns)`; what they held before is dropped.

    `until_ns`: capacity and live time end there (an open window costs what has passed of it); by default `scope.to_ns`.
    Raises CheckFailed when ledger and pools differ by an atom or a nanosecond anywhere.
    """
    until_ns = scope.to_ns if until_ns is None else max(scope.from_ns, min(scope.to_ns, until_ns))
    parameters = {**scope.parameters(), "until_ns": until_ns - until_ns % scope.slot_ns}
    for table in SCRATCH:
        store.command("TRUNCATE TABLE {table:Identifier}", {"table": table})
    store.command(statement(SQL, "20_segments"), parameters)
    store.command(statement(SQL, "21_legs"), parameters)
    counts = ((str(replica), int(window_ns), int(n)) for replica, window_ns, n in store.query(statement(SQL, "29_chunks"), parameters).rows)
    for chunk in plan(counts, scope, attempts_per_chunk_max):
        chosen = {**parameters, "replicas": list(chunk.replicas), "chunk_from_ns": chunk.from_ns, "chunk_to_ns": chunk.to_ns}
        store.command(statement(SQL, "22_slots"), chosen)
        store.command(statement(SQL, "23_shares"), chosen)
    store.command(statement(SQL, "24_pools"), parameters)
    allocate_pools(store, parameters)
    for name in ("25_ledger_attempts", "26_ledger_nobody", "26_ledger_idle", "27_savings"):
        store.command(statement(SQL, name), parameters)
    check_conservation(store)


def plan(counts: Iterable[tuple[str, int, int]], scope: Scope, attempts_max: int) -> list[Chunk]:
    """Chunks for (replica, window start ns, attempts live in it). A replica that alone passes the limit is taken window by window.

    Replicas share a chunk while the sum over their windows stays inside the limit: at most twice the fewest chunks possible.
    """
    per_replica: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for replica, window_ns, attempts in counts:
        per_replica[replica].append((window_ns, attempts))
    chunks: list[Chunk] = []
    together: list[str] = []
    sum_together = 0
    for replica in sorted(per_replica):
        attempts = sum(n for _, n in per_replica[replica])
        if attempts > attempts_max:
            chunks += [Chunk((replica,), window_ns, window_ns + scope.window_ns) for window_ns, _ in sorted(per_replica[replica])]
            continue
        if together and sum_together + attempts > attempts_max:
            chunks.append(Chunk(tuple(together), scope.from_ns, scope.to_ns))
            together, sum_together = [], 0
        together.append(replica)
        sum_together += attempts
    return [*chunks, Chunk(tuple(together), scope.from_ns, scope.to_ns)] if together else chunks


def check_conservation(store: Store) -> None:
    """Every atom and busy nanosecond of work_pools is in work_ledger, per window, pool and resource. Raises CheckFailed."""
    broken = store.query(statement(SQL, "28_conservation")).dicts()
    if broken:
        first = broken[0]
        raise CheckFailed(
            f"conservation: window {first['window_from']:%Y-%m-%dT%H:%M:%SZ}, pool {first['pool']}, resource {first['resource']!r}:"
            f" pools {first['pools_atoms']} atoms and {first['pools_busy_ns']} busy ns, ledger {first['ledger_atoms']} and"
            f" {first['ledger_busy_ns']}; nothing of this run is published"
        )
