"""How long one attribution run takes, and how much memory: attempts of one hour on 16 replicas, about 11 one-second slots each.

Assembly is left out (it has its own measure): the attempts are written into its scratch tables by one statement.
"""

import multiprocessing
import os
import resource
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from pipeline.attribution import job, money
from pipeline.attribution.rollups import roll_up
from pipeline.attribution.scope import Scope
from pipeline.store.client import Store, open_store
from pipeline.store.migrate import migrate
from schemas.settings import AttributionSettings, StoreSettings

FROM_NS = 1_793_577_600_000_000_000  # 2026-11-02T00:00:00Z
HOUR_NS = 3_600_000_000_000
REPLICAS = 16

ATTEMPTS_SQL = """
INSERT INTO work_attempts (window_from, run_id, request_id, attempt_id, attempt_no, tenant, model, started_at, ended_at, input_tokens,
    input_cache_read_tokens, output_tokens, usage_source, usage_state, delivery, outcome, tenant_source, replica,
    first_scheduled_at, first_token_at, last_token_at)
SELECT
    toStartOfInterval(started_at, INTERVAL 900 SECOND), {run_id:UInt64}, concat('request-', toString(number)),
    concat('attempt-', toString(number)), 1, concat('tenant-', toString(number % 50)), 'llama',
    fromUnixTimestamp64Nano(start_ns, 'UTC') AS started_at,
    last_at, 200 + intHash64(number * 7) % 4000, intHash64(number * 11) % 200, 20 + intHash64(number * 13) % 400,
    'engine', 'reported', 'assumed', 'useful', 'gateway', concat('r', toString(number % {replicas:UInt64})),
    fromUnixTimestamp64Nano(start_ns + 20000000, 'UTC'),
    fromUnixTimestamp64Nano(start_ns + 20000000 + prefill_ns, 'UTC'),
    fromUnixTimestamp64Nano(start_ns + 20000000 + prefill_ns + decode_ns, 'UTC') AS last_at
FROM (
    SELECT
        number,
        toInt64({from_ns:Int64} + intHash64(number) % 3590000000000) AS start_ns,
        toInt64(50000000 + intHash64(number * 3) % 1500000000) AS prefill_ns,
        toInt64(2000000000 + intHash64(number * 5) % 15000000000) AS decode_ns
    FROM numbers({attempts:UInt64})
)
"""
REQUESTS_SQL = """
INSERT INTO work_requests (window_from, run_id, request_id, tenant, model, started_at, ended_at, e2e_ns, ttft_ns, input_tokens,
    output_tokens, usage_source, usage_state, delivery, outcome, tenant_source, attempts, useful_tokens, stage_ns)
SELECT window_from, run_id, request_id, tenant, model, started_at, ended_at,
    toUnixTimestamp64Nano(assumeNotNull(ended_at)) - toUnixTimestamp64Nano(started_at),
    toUnixTimestamp64Nano(assumeNotNull(first_token_at)) - toUnixTimestamp64Nano(started_at),
    input_tokens, output_tokens, usage_source, usage_state, delivery, outcome, tenant_source, 1, output_tokens,
    map('prefill', 5, 'decode', 7)
FROM work_attempts
"""


def measure(attempts: int) -> dict[str, float]:
    """Runs in a process of its own. Seconds of the money alone and of the whole run; memory above the empty engine, in bytes."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_measure, args=(attempts, theirs))
    process.start()
    theirs.close()
    try:
        found: dict[str, float] = ours.recv()
    finally:
        process.join()
    return found


def _measure(attempts: int, answer: Connection) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(StoreSettings(url=f"chdb:{folder}"))
        migrate(store)
        _configure(store)
        scope = Scope(1, "c", FROM_NS, FROM_NS + HOUR_NS, HOUR_NS // 4, 1_000_000_000, 0, HOUR_NS)
        _fill(store, scope, attempts)
        base = _resident_bytes()
        with _Peak() as peak:
            began, began_cpu = time.perf_counter(), time.process_time()
            money.allocate(store, scope)
            money_seconds, money_cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
        slots = store.query("SELECT sum(length(pieces)) FROM work_slots").scalar()
        result = job.run(
            store,
            AttributionSettings(),
            "c",
            FROM_NS,
            FROM_NS + HOUR_NS,
            clock=lambda: FROM_NS + 2 * HOUR_NS + time.perf_counter_ns(),
            assemble=lambda store, scope: _fill(store, scope, attempts),
            roll_up=roll_up,
        )
        answer.send(
            {
                "attempts": attempts,
                "attempt_slots": slots,
                "money_seconds": money_seconds,
                "money_cpu_seconds": money_cpu_seconds,
                "money_peak_bytes": peak.bytes - base,
                "run_seconds": result.seconds,
                "process_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
        store.close()
        os.chdir("/")


def _fill(store: Store, scope: Scope, attempts: int) -> None:
    parameters = {**scope.parameters(), "attempts": attempts, "replicas": REPLICAS}
    store.command(ATTEMPTS_SQL, parameters)
    store.command(REQUESTS_SQL, parameters)


def _configure(store: Store) -> None:
    store.insert_rows(
        "inventory",
        [
            {
                "config_hash": "c",
                "replica": f"r{n}",
                "model": "llama",
                "gpu": "h100",
                "gpus": 8,
                "precision": "fp8",
                "flops_per_second": 4 * 10**15,
                "bytes_per_second": 19 * 10**12,
                "prefill_budget_tokens": 8192,
                "from_ns": 0,
                "to_ns": 2**63 - 1,
            }
            for n in range(REPLICAS)
        ],
    )
    price = {"config_hash": "c", "price_id": "p", "gpu": "h100", "currency": "USD", "atoms_per_gpu_hour": 2_490_000_000_000}
    store.insert_rows("gpu_prices", [{**price, "from_ns": 0, "to_ns": 2**63 - 1}])
    constants = {"flop_per_token": 141 * 10**9, "weight_bytes": 71 * 10**9, "kv_bytes_per_token": 163_840}
    store.insert_rows("model_constants", [{"config_hash": "c", "model": "llama", "precision": "fp8", **constants}])


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Peak:
    """Highest resident memory while open, looked at every 20 ms."""

    def __init__(self) -> None:
        self.bytes = _resident_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.wait(0.02):
            self.bytes = max(self.bytes, _resident_bytes())

    def __enter__(self) -> "_Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


if __name__ == "__main__":
    for count in [int(word) for word in sys.argv[1:]] or [100_000]:
        print({name: round(value, 2) for name, value in measure(count).items()})
