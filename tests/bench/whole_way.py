"""The whole way in one process: gRPC receiver, SQLite log, loader and embedded store, a sender process beside them on the same cores.

A span counts when a query finds it. Attribution and viewer, which `tokenpath up` runs too, rest here; `freshness` has them.
"""

import tempfile
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

from collectors.otlp_grpc import serve_grpc
from pipeline.command import located
from pipeline.loading.loader import Loader
from pipeline.serving.processes import append_log, read_log, receiving
from pipeline.serving.workers import Worker, run_together
from pipeline.store.client import Store, open_store
from pipeline.store.migrate import migrate
from schemas.keys import Keyring
from schemas.settings import ReceiveSettings, Settings
from tests.bench.alone import memory_peak_bytes
from tests.bench.traffic import Sender, Sent

POLL_SECONDS = 0.05
DRAIN_SECONDS_MAX = 120.0


def measure(seconds: float = 12.0, requests: int = 2000) -> dict[str, float]:
    """Sends as fast as accepted for `seconds`, then waits until every accepted span is queryable; the rate is over all of that time.

    Raises RuntimeError if a span is missing or there twice.
    """
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        settings = located(Settings(receive=ReceiveSettings(grpc="127.0.0.1:0")), Path(directory))
        sender = stack.enter_context(closing(Sender(requests)))
        store = stack.enter_context(closing(open_store(settings.store)))
        migrate(store)
        log = stack.enter_context(closing(append_log(settings)))
        reading = stack.enter_context(closing(read_log(settings)))
        loader = stack.enter_context(closing(Loader(reading, stack.enter_context(closing(store.another())), log, settings)))
        receiver = serve_grpc(settings, log, Keyring(()), time.time_ns)
        figures: dict[str, float] = {}
        stop = threading.Event()

        def run() -> None:
            try:
                sender.wait_until_ready()
                figures.update(_measured(sender, store, receiver.port, seconds))
            finally:
                stop.set()

        run_together([receiving([receiver]), Worker("loader", loader.run)], stop, run)
        figures["batches"] = loader.counters.batches
        distinct = int(store.query("SELECT count() FROM spans FINAL").scalar())
        if distinct != figures["spans"]:
            raise RuntimeError(f"{figures['spans']:.0f} spans were accepted, {distinct} are stored")
        return figures


def _measured(sender: Sender, store: Store, port: int, seconds: float) -> dict[str, float]:
    cpu = time.process_time()
    sender.start(port, seconds)
    while not sender.done():
        time.sleep(POLL_SECONDS)
    at_end = _stored(store)
    sent = sender.result()
    stored_ns = _wait_until_stored(store, sent)
    elapsed = (stored_ns - sent.from_ns) / 1e9
    sending = (sent.to_ns - sent.from_ns) / 1e9
    return {
        "spans": sent.spans,
        "spans_per_second": sent.spans / elapsed,
        "accepted_per_second": sent.spans / sending,
        "seconds": elapsed,
        "lag_spans": max(0, sent.spans - at_end),
        "refused": sent.refused,
        "bytes_per_span": sent.body_bytes / max(1, sent.spans),
        "process_cores": (time.process_time() - cpu) / elapsed,
        "sender_cores": sent.cpu_seconds / sending,
        "peak_bytes": memory_peak_bytes(),
    }


def _stored(store: Store) -> int:
    return int(store.query("SELECT count() FROM spans").scalar())


def _wait_until_stored(store: Store, sent: Sent) -> int:
    until = time.monotonic() + DRAIN_SECONDS_MAX
    while (found := _stored(store)) < sent.spans:
        if time.monotonic() > until:
            raise RuntimeError(f"{sent.spans} spans were accepted, {found} are stored {DRAIN_SECONDS_MAX:.0f} s later")
        time.sleep(POLL_SECONDS)
    return time.time_ns()
