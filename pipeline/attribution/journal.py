"""What `runs` says of each attribution run, and the rows of runs that nobody may see any more."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version as package_version
from typing import Any, Literal

from pipeline.attribution.scope import METHOD, USEFUL_POLICY, Scope
from pipeline.statements import statement
from pipeline.store.client import Store
from schemas.settings import AttributionSettings

logger = logging.getLogger(__name__)

SQL = "pipeline.attribution.sql.runs"
SECOND_NS = 1_000_000_000
COPIED = ("requests", "attempts", "blames", "pools", "ledger", "left_out", "measures")  # scratch table work_<name>, run table <name>
RUN_TABLES = (
    *COPIED,
    "unallocated_windows",
    "tenant_windows",
    "latency_windows",
    "leak_windows",
    "baselines",
    "rated_windows",
    "counted_tokens",
)
EMPTY_WINDOW = {"requests": 0, "attempts": 0, "pools_atoms": 0, "ledger_atoms": 0, "content_hash": ""}
PROVISIONAL_KEPT_SECONDS = 600  # a panel that began to read one may finish
RUNS_PER_SWEEP_MAX = 10_000

Kind = Literal["closed", "provisional"]
State = Literal["started", "published", "unchanged", "failed"]
Clock = Callable[[], int]  # unix ns


@dataclass(frozen=True, slots=True)
class Journal:
    """Writes a run's rows into `runs`: one per window, all of one state in one block."""

    store: Store
    scope: Scope
    kind: Kind
    clock: Clock
    began_ns: int
    watermark: Mapping[str, int]

    def record(self, state: State, found: Mapping[int, Mapping[str, Any]] | None = None, error: str = "") -> None:
        """`published` makes all windows of the run visible at once. `found` is `job.digest`'s answer."""
        scope, recorded_at = self.scope, _micros(recording_us(self.store, self.clock))
        windows = found or dict.fromkeys(range(scope.from_ns, scope.to_ns, scope.window_ns), EMPTY_WINDOW)
        self.store.insert_rows(
            "runs",
            [
                {
                    "run_id": scope.run_id,
                    "window_from": at // SECOND_NS,
                    "window_to": (at + scope.window_ns) // SECOND_NS,
                    "state": state,
                    "kind": self.kind,
                    "method": METHOD,
                    "useful_policy": USEFUL_POLICY,
                    "config_hash": scope.config_hash,
                    "watermark": self.watermark,
                    "content_hash": window["content_hash"],
                    "requests": window["requests"],
                    "attempts": window["attempts"],
                    "pools_atoms": str(window["pools_atoms"]),
                    "ledger_atoms": str(window["ledger_atoms"]),
                    "started_at": _micros(self.began_ns // 1000),
                    "recorded_at": recorded_at,
                    "version": package_version("tokenpath"),
                    "error": error,
                }
                for at, window in windows.items()
            ],
        )


def read_watermark(store: Store) -> dict[str, int]:
    """`topic/partition` to next offset, over all arrivals. Read before the spans: what comes later dirties its windows again."""
    return {str(source): int(offset) for source, offset in store.query(statement(SQL, "51_watermark")).rows}


def recording_us(store: Store, clock: Clock) -> int:
    """Unix us, above all recorded before, even if the clock steps back: the newest publication is the one made last."""
    _, newest_us = store.query(statement(SQL, "52_newest")).rows[0]
    return max(clock() // 1000, int(newest_us) + 1)


def discard(store: Store, run_ids: Sequence[int], tables: Iterable[str] = RUN_TABLES) -> None:
    """Deletes the rows of runs that were never published, or that nobody may ask for any more."""
    for table in tables:
        store.command(statement(SQL, "56_discard"), {"table": table, "run_ids": list(run_ids)})


def sweep(store: Store, clock: Clock) -> None:
    """Deletes what runs of dead processes left, and records them as failed. Call under the job's lock only."""
    dead = store.query(statement(SQL, "53_unfinished")).dicts()
    if not dead:
        return
    logger.warning("%d attribution runs did not finish; their rows are deleted", len(dead))
    discard(store, [int(row["run_id"]) for row in dead])
    recorded_at = _micros(recording_us(store, clock))
    store.insert_rows(
        "runs",
        [
            {
                "run_id": row["run_id"],
                "window_from": int(row["window_from"].timestamp()),
                "window_to": int(row["window_to"].timestamp()),
                "state": "failed",
                "kind": row["kind"],
                "config_hash": row["config_hash"],
                "started_at": _micros(round(row["started_at"].timestamp() * 1_000_000)),
                "recorded_at": recorded_at,
                "version": package_version("tokenpath"),
                "error": "did not finish: its process ended",
            }
            for row in dead
        ],
    )


def forget_superseded(store: Store, settings: AttributionSettings, clock: Clock = time.time_ns) -> int:
    """Deletes requests, attempts and blames of closed runs superseded for `keep_superseded_days` (their money stays: "as known on date X"),
    and all rows of superseded provisional runs, which nobody may bill or cite, after ten minutes. Returns how many runs it cleared.

    At most 10,000 runs a call, the oldest first.
    """
    now_us = clock() // 1000
    parameters = {
        "closed_before_us": now_us - settings.keep_superseded_days * 86_400_000_000,
        "provisional_before_us": now_us - PROVISIONAL_KEPT_SECONDS * 1_000_000,
        "runs_max": RUNS_PER_SWEEP_MAX,
    }
    rows = store.query(statement(SQL, "57_superseded"), parameters).rows
    closed = [int(run_id) for run_id, kind in rows if kind == "closed"]
    provisional = [int(run_id) for run_id, kind in rows if kind == "provisional"]
    if closed:
        discard(store, closed, ("requests", "attempts", "blames"))
    if provisional:
        discard(store, provisional, (*RUN_TABLES, "runs"))
    return len(rows)


def _micros(at_us: int) -> str:
    return f"{at_us // 1_000_000}.{at_us % 1_000_000:06d}"
