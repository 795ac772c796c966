"""One attribution run from stored spans to published figures: an hour of a replayed cluster, nine spans a request."""

import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path

from pipeline.attribution import job
from pipeline.attribution.assembly import assemble
from pipeline.attribution.job import Step
from pipeline.attribution.rollups import roll_up
from pipeline.attribution.scope import Scope
from pipeline.configuration.versions import load_configuration, store_configuration
from pipeline.store.client import Store, open_store
from pipeline.store.migrate import migrate
from schemas.settings import AttributionSettings, StoreSettings
from tests.bench import stored_spans
from tests.bench.alone import forget_memory_peak, memory_peak_bytes

HOUR_NS = 3600 * 10**9
RECORDED_REQUESTS = 2000


def measure(attempts: int) -> dict[str, float]:
    """Seconds of a run over about so many attempts, by the clock and of CPU, those of assembly and rollups alone, and the memory of
    its process. Raises RuntimeError when attempts are missing."""
    requests = min(attempts, RECORDED_REQUESTS)
    copies = -(-attempts // requests)
    from_ns = (time.time_ns() // HOUR_NS - 3) * HOUR_NS
    with tempfile.TemporaryDirectory() as directory, closing(open_store(StoreSettings(url=f"chdb:{directory}"))) as store:
        migrate(store)
        config_hash = _configure(store)
        recorded = stored_spans.record(store, requests, from_ns)
        stored_spans.copy(store, 0, copies, stored_spans.TRACE_NS // copies)
        forget_memory_peak()
        clocks: dict[str, float] = {}
        cpu = time.process_time()
        result = job.run(
            store,
            AttributionSettings(),
            config_hash,
            from_ns,
            from_ns + HOUR_NS,
            assemble=_timed("assembly_seconds", assemble, clocks),
            roll_up=_timed("rollup_seconds", roll_up, clocks),
        )
        cpu = time.process_time() - cpu
    if result.requests < 0.9 * requests * copies or result.pools_atoms != result.ledger_atoms:
        raise RuntimeError(f"of {requests * copies} requests {result.requests} were attributed")
    return {
        "attempts": result.attempts,
        "requests": result.requests,
        "spans": recorded * copies,
        "seconds": result.seconds,
        "cpu_seconds": cpu,
        **clocks,
        "seconds_per_million_attempts": result.seconds * 1e6 / result.attempts,
        "peak_bytes": memory_peak_bytes(),
    }


def _configure(store: Store) -> str:
    with as_file(files("pipeline") / "example") as example:
        return store_configuration(store, load_configuration(Path(example)), datetime.now(UTC))


def _timed(name: str, step: Step, clocks: dict[str, float]) -> Callable[[Store, Scope], None]:
    def run(store: Store, scope: Scope) -> None:
        began = time.perf_counter()
        step(store, scope)
        clocks[name] = time.perf_counter() - began

    return run
