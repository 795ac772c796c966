"""The attribution job: one run over adjoining windows. Only orders the steps; each step is elsewhere.

    lock -> sweep what a dead run left -> watermark -> `started` -> assemble -> blame -> measure -> allocate -> compare with readers
         -> same: `unchanged`
         -> else: copy into the tables -> roll up -> check the copy -> `published`, one block that shows all windows at once

A run that dies at any step leaves rows that no reader sees (readers join current_runs); the next run deletes them.
"""

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any, Literal

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.attribution import money
from pipeline.attribution.assembly import assemble
from pipeline.attribution.blame import blame
from pipeline.attribution.journal import COPIED, EMPTY_WINDOW, SECOND_NS, SQL, Clock, Journal, Kind, discard, read_watermark, sweep
from pipeline.attribution.measures import measure
from pipeline.attribution.rhythm import month_of
from pipeline.attribution.rollups import roll_up
from pipeline.attribution.scope import METHOD, USEFUL_POLICY, Scope
from pipeline.errors import CheckFailed, TokenpathError
from pipeline.statements import statement
from pipeline.store.client import Store
from pipeline.store.errors import first_line
from schemas.settings import AttributionSettings

Step = Callable[[Store, Scope], None]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did. `unchanged`: readers see the same figures as before, under the older run's id."""

    run_id: int
    from_ns: int
    to_ns: int
    kind: Kind
    state: Literal["published", "unchanged"]
    requests: int
    attempts: int
    pools_atoms: int
    ledger_atoms: int
    seconds: float


def run(
    store: Store,
    settings: AttributionSettings,
    config_hash: str,
    from_ns: int,
    to_ns: int,
    kind: Kind = "closed",
    clock: Clock = time.time_ns,
    *,
    assemble: Step = assemble,
    roll_up: Step = roll_up,
) -> RunResult:
    """Attributes the windows `[from_ns, to_ns)` (on the window grid, inside one month) and publishes them together, if anything changed.

    A provisional run covers an open window: its capacity ends at the clock. Idempotent: the same input publishes once.
    Raises CheckFailed (a promise is broken or a statement refuses the data) or StoreDown: recorded as `failed`, nothing published.
    """
    check_range(settings, from_ns, to_ns)
    with only_job(store):
        sweep(store, clock)
        began_ns = clock()
        newest_run, _ = store.query(statement(SQL, "52_newest")).rows[0]
        scope = Scope(
            run_id=max(began_ns, int(newest_run) + 1),
            config_hash=config_hash,
            from_ns=from_ns,
            to_ns=to_ns,
            window_ns=settings.window_seconds * SECOND_NS,
            slot_ns=settings.slot_ms * 1_000_000,
            grace_ns=settings.grace_seconds * SECOND_NS,
            max_attempt_ns=settings.max_attempt_seconds * SECOND_NS,
        )
        journal = Journal(store, scope, kind, clock, began_ns, read_watermark(store))
        journal.record("started")
        try:
            return _attribute(store, scope, journal, assemble, roll_up)
        except (TokenpathError, ClickHouseError) as error:
            discard(store, [scope.run_id])
            journal.record("failed", error=str(error))
            if isinstance(error, ClickHouseError):
                raise CheckFailed(f"run {scope.run_id} of {_shown(from_ns)} to {_shown(to_ns)}: {first_line(error)}") from error
            raise


def _shown(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // SECOND_NS, UTC):%Y-%m-%d %H:%M}Z"


def _attribute(store: Store, scope: Scope, journal: Journal, assemble: Step, roll_up: Step) -> RunResult:
    for name in ("work_requests", "work_attempts", "work_left_out"):
        store.command("TRUNCATE TABLE {table:Identifier}", {"table": name})
    assemble(store, scope)
    blame(store, scope)
    until_ns = scope.to_ns if journal.kind == "closed" else journal.began_ns
    measure(store, scope, until_ns)
    money.allocate(store, scope, until_ns)
    found = digest(store, scope)
    if _same_as_current(store, scope, journal.kind, found):
        journal.record("unchanged", found)
        return _result(scope, journal, "unchanged", found)
    for name in COPIED:
        store.command(statement(SQL, "55_copy"), {**scope.parameters(), "source": f"work_{name}", "target": name})
    roll_up(store, scope)
    check_copy(store, scope, found)
    journal.record("published", found)
    return _result(scope, journal, "published", found)


def _result(scope: Scope, journal: Journal, state: Literal["published", "unchanged"], found: Mapping[int, Mapping[str, Any]]) -> RunResult:
    return RunResult(
        run_id=scope.run_id,
        from_ns=scope.from_ns,
        to_ns=scope.to_ns,
        kind=journal.kind,
        state=state,
        requests=sum(window["requests"] for window in found.values()),
        attempts=sum(window["attempts"] for window in found.values()),
        pools_atoms=sum(window["pools_atoms"] for window in found.values()),
        ledger_atoms=sum(window["ledger_atoms"] for window in found.values()),
        seconds=(journal.clock() - journal.began_ns) / SECOND_NS,
    )


def check_range(settings: AttributionSettings, from_ns: int, to_ns: int) -> None:
    """One block of `runs` must be one part, and its partitions are months. Raises ValueError."""
    window_ns = settings.window_seconds * SECOND_NS
    if from_ns % window_ns or to_ns % window_ns or from_ns >= to_ns:
        raise ValueError(f"[{from_ns}, {to_ns}) is not a range of whole windows of {settings.window_seconds} s")
    if month_of(from_ns) != month_of(to_ns - window_ns):
        raise ValueError(f"[{from_ns}, {to_ns}) crosses the end of a month: run each month by itself")


@contextmanager
def only_job(store: Store) -> Iterator[None]:
    """One job at a time per store and machine: waits until the other is done. The kernel frees the lock of a dead process."""
    identity = store.query("SELECT toString(serverUUID()), currentDatabase(), path FROM system.disks WHERE name = 'default'").rows
    name = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"tokenpath-{os.getuid()}-{name}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def digest(store: Store, scope: Scope) -> dict[int, dict[str, Any]]:
    """Per window start (ns): counts, money and content hash of the run's scratch rows. Windows without rows are there too."""
    found = {at: dict(EMPTY_WINDOW) for at in range(scope.from_ns, scope.to_ns, scope.window_ns)}
    for row in store.query(statement(SQL, "50_digest"), scope.parameters()).dicts():
        found[int(row.pop("window_from").timestamp()) * SECOND_NS] = row
    return found


def check_copy(store: Store, scope: Scope, found: Mapping[int, Mapping[str, Any]]) -> None:
    """The run's rows in its tables are as many, and worth as much, as those computed. Raises CheckFailed."""
    copied = {
        int(row.pop("window_from").timestamp()) * SECOND_NS: row
        for row in store.query(statement(SQL, "50_totals"), scope.parameters()).dicts()
    }
    for at, window in found.items():
        wanted = {name: count for name, count in window.items() if name != "content_hash"}
        if copied.get(at, dict.fromkeys(wanted, 0)) != wanted:
            raise CheckFailed(f"run {scope.run_id}: its tables differ from what was computed; is another job writing to this store?")


def _same_as_current(store: Store, scope: Scope, kind: Kind, found: Mapping[int, Mapping[str, Any]]) -> bool:
    rows = store.query(statement(SQL, "54_current"), scope.parameters()).rows
    current = {int(window_from.timestamp()) * SECOND_NS: tuple(content) for window_from, content in rows}
    return all(
        current.get(at) == (kind, METHOD, USEFUL_POLICY, scope.config_hash, package_version("tokenpath"), window["content_hash"])
        for at, window in found.items()
    )
