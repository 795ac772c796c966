"""Many stored spans for the parts of the bench that begin behind the loader: a replay's, and copies of them made by the engine."""

import time

from pipeline.loading.envelope import Arrival, insert, wrap
from pipeline.statements import statement
from pipeline.store.client import Store
from schemas.log import TRACES_TOPIC, Record
from tests.bench.traffic import recorded

SQL = "tests.bench.sql"
TRACE_NS = 1800 * 10**9  # what the packaged example covers at speed 1
REPLICAS = 4  # those of the packaged inventory
COPIES_PER_INSERT = 50


def record(store: Store, requests: int, start_ns: int) -> int:
    """Fills `recorded_spans` with a replay from `start_ns` on, nine spans a request, and leaves `spans` empty. Returns how many."""
    bodies = recorded(requests, start_ns, replicas=REPLICAS, speed=1)
    received_ns = time.time_ns()
    arrivals = [Arrival(Record(TRACES_TOPIC, 0, n, {}, content), received_ns, "platform", "bench") for n, content in enumerate(bodies)]
    insert(store, "traces", wrap(arrivals))
    store.command(statement(SQL, "base_table"))
    store.command(statement(SQL, "base_spans"))
    store.command("TRUNCATE TABLE spans")
    return int(store.query("SELECT count() FROM recorded_spans").scalar())


def copy(store: Store, first: int, copies: int, step_ns: int) -> None:
    """Adds copies `first`, `first + 1`, … of the recorded spans as other traces, copy n being n steps later."""
    for from_copy in range(first, first + copies, COPIES_PER_INSERT):
        parameters = {"from_copy": from_copy, "copies": min(COPIES_PER_INSERT, first + copies - from_copy), "step_ns": step_ns}
        store.command(statement(SQL, "copy_spans"), parameters)
