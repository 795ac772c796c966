"""How long after its receipt a span is queryable, at a steady rate, while `tokenpath up` does all of its work.

A second client polls the number of stored spans over ClickHouse's HTTP interface. The k-th span received is queryable at the latest
when k spans are; what polling adds counts against us.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pipeline.serving.instance import ENDPOINT_FILE, live_endpoint
from pipeline.store.client import Store, open_store
from tests.bench.alone import ROOT, memory_peak_bytes
from tests.bench.traffic import Sender

POLL_SECONDS = 0.05
START_SECONDS_MAX = 60.0
DRAIN_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
BY_OFFSET = (
    "SELECT log_offset, any(received_ns) AS received_ns, count() AS spans FROM spans GROUP BY topic, log_partition, log_offset"
    " ORDER BY received_ns, log_offset"
)


def measure(spans_per_second: float = 20_000, seconds: float = 20.0, requests: int = 1000) -> dict[str, float]:
    """Milliseconds from receipt to queryable. Raises RuntimeError when a span does not arrive."""
    with tempfile.TemporaryDirectory() as directory, closing(Sender(requests)) as sender:
        port, *others = free_ports(4)
        with running_up(Path(directory), port, others) as (process, store):
            sender.wait_until_ready()
            sender.start(port, seconds, spans_per_second)
            seen = [poll(store)]
            while not sender.done():
                seen.append(poll(store))
            sent = sender.result()
            until = time.monotonic() + DRAIN_SECONDS_MAX
            while seen[-1][1] < sent.spans:
                if time.monotonic() > until:
                    raise RuntimeError(f"{sent.spans} spans were accepted, {seen[-1][1]} are stored {DRAIN_SECONDS_MAX:.0f} s later")
                seen.append(poll(store))
            received = [(int(at), int(count)) for _, at, count in store.query(BY_OFFSET).rows]
            peak_bytes = memory_peak_bytes(process.pid)
    ages = sorted(ages_ms(received, seen))
    return {
        "spans": sent.spans,
        "refused": sent.refused,
        "spans_per_second": sent.spans * 1e9 / (sent.to_ns - sent.from_ns),
        "p50_ms": nearest_rank(ages, 500),
        "p99_ms": nearest_rank(ages, 990),
        "max_ms": ages[-1][0],
        "polls": len(seen),
        "peak_bytes": peak_bytes,
    }


def ages_ms(received: Iterable[tuple[int, int]], seen: Sequence[tuple[int, int]]) -> Iterator[tuple[float, int]]:
    """(age, spans) per message. `received`: (unix ns, spans) in order; `seen`: (unix ns, spans stored), both ascending."""
    counts = [count for _, count in seen]
    before = 0
    for received_ns, spans in received:
        before += spans
        yield (seen[bisect_left(counts, before)][0] - received_ns) / 1e6, spans


def nearest_rank(ages: Sequence[tuple[float, int]], permille: int) -> float:
    """Of sorted (value, how often)."""
    rank = -(-permille * sum(n for _, n in ages) // 1000)
    for value, n in ages:
        rank -= n
        if rank <= 0:
            return value
    raise ValueError("nothing was measured")


def poll(store: Store) -> tuple[int, int]:
    time.sleep(POLL_SECONDS)
    count = int(store.query("SELECT count() FROM spans").scalar())
    return time.time_ns(), count


@contextmanager
def running_up(directory: Path, grpc_port: int, others: Sequence[int]) -> Iterator[tuple[subprocess.Popen[bytes], Store]]:
    """`tokenpath up` with the packaged example's configuration, and a client of its ClickHouse interface."""
    names = ("TOKENPATH_RECEIVE_GRPC", "TOKENPATH_RECEIVE_HTTP", "TOKENPATH_SERVE_HTTP", "TOKENPATH_SERVE_CLICKHOUSE_HTTP")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOKENPATH_")}
    environment |= {name: f"127.0.0.1:{port}" for name, port in zip(names, (grpc_port, *others), strict=True)}
    environment["PYTHONPATH"] = str(ROOT)
    data = directory / "data"
    said = directory / "up.log"
    with said.open("wb") as log:
        command = [sys.executable, "-c", "from pipeline.cli import main; main()", "up", "--data", str(data)]
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log)
    try:
        until = time.monotonic() + START_SECONDS_MAX
        while not (data / ENDPOINT_FILE).exists() or (endpoint := live_endpoint(data)) is None:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"tokenpath up did not start: {said.read_text()[-2000:]}")
            time.sleep(POLL_SECONDS)
        with closing(open_store(endpoint.store_settings)) as store:
            yield process, store
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
