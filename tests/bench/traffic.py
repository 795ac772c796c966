"""Traffic for the bench: the replay's spans, copied without end under other trace ids, posted over gRPC by a process of its own.

The replay is far slower than a receiver, so a few thousand requests are encoded before the clock runs. While it runs, a copy costs a
few bytes a span: every copy's trace ids are the originals with their first bytes mixed with the copy's number, so that no two spans
are one, and copies of a trace do not lie together in the store.
"""

import multiprocessing
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.workload.options import ReplayOptions
from collectors.workload.replay import replay

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SPANS_PER_BODY = 500
CALLS_IN_FLIGHT = 8
BUSY_REPLICAS, BUSY_SPEED = 16, 6  # the example's half hour in five minutes
LEAD_NS = 600 * 10**9  # spans begin ten minutes before they are sent
MIXED_BYTES = 4
READY_SECONDS = 60.0
CALL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Body:
    """One OTLP request and where the trace ids stand in it."""

    content: bytes
    trace_ids: tuple[tuple[int, int], ...]  # position, the first bytes as a number

    @property
    def spans(self) -> int:
        return len(self.trace_ids)


@dataclass(frozen=True, slots=True)
class Sent:
    """What the receiver said OK to, and when (unix ns) the first call began and the last one ended."""

    spans: int
    body_bytes: int
    refused: int
    from_ns: int
    to_ns: int
    cpu_seconds: float


def recorded(requests: int, start_ns: int, replicas: int = BUSY_REPLICAS, speed: int = BUSY_SPEED) -> list[bytes]:
    """OTLP requests of a replay of the packaged example from `start_ns` on: about 16 spans a request, with 1 to 16 attributes."""
    with tempfile.TemporaryDirectory() as directory:
        options = ReplayOptions(
            example_requests=requests,
            speed=Decimal(speed),
            replicas=replicas,
            start_ns=start_ns,
            batch_spans=SPANS_PER_BODY,
            to=(f"file:{directory}",),
            via="bytes",
        )
        replay(options, lambda done, known: None)
        return [path.read_bytes() for path in sorted(Path(directory).glob("*.binpb"))]


def body(content: bytes) -> Body:
    """Finds the trace ids: the encoding has them in the order of the spans."""
    found: list[tuple[int, int]] = []
    position = 0
    for block in ExportTraceServiceRequest.FromString(content).resource_spans:
        for scope in block.scope_spans:
            for span in scope.spans:
                position = content.index(span.trace_id, position)
                found.append((position, int.from_bytes(span.trace_id[:MIXED_BYTES], "big")))
                position += len(span.trace_id)
    return Body(content, tuple(found))


def copy(original: Body, mask: int) -> bytes:
    """The same spans of other traces. Mask 0 is the original."""
    content = bytearray(original.content)
    for position, number in original.trace_ids:
        content[position : position + MIXED_BYTES] = (number ^ mask).to_bytes(MIXED_BYTES, "big")
    return bytes(content)


def copies(bodies: Sequence[Body], seed: int = 7) -> Iterator[tuple[int, bytes]]:
    """(spans, content) without end; all bodies of a round share a mask, so traces stay whole."""
    dice = random.Random(seed)
    used = {0}
    mask = 0
    while True:
        for original in bodies:
            yield original.spans, copy(original, mask)
        while mask in used:
            mask = dice.getrandbits(8 * MIXED_BYTES)
        used.add(mask)


class Sender:
    """The sending process. Made ready before the clock runs; `send` returns when it has ended."""

    def __init__(self, requests: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._ours, theirs = spawn.Pipe()
        self._process: BaseProcess = spawn.Process(target=_serve, args=(requests, theirs), daemon=True)
        self._process.start()

    def wait_until_ready(self) -> None:
        self._receive(READY_SECONDS)

    def start(self, port: int, seconds: float, spans_per_second: float | None = None) -> None:
        """As fast as accepted, or at a steady rate."""
        self._ours.send((port, seconds, spans_per_second))

    def done(self) -> bool:
        return self._ours.poll(0) or not self._process.is_alive()

    def result(self) -> Sent:
        sent = self._receive(CALL_SECONDS)
        self._process.join()
        return Sent(*sent)

    def close(self) -> None:
        self._process.kill()
        self._process.join()

    def _receive(self, seconds: float) -> Any:
        if not self._ours.poll(seconds):
            raise RuntimeError(f"the sender said nothing for {seconds:.0f} s")
        return self._ours.recv()


def _serve(requests: int, report: Connection) -> None:
    bodies = [body(content) for content in recorded(requests, time.time_ns() - LEAD_NS)]
    report.send("ready")
    port, seconds, spans_per_second = report.recv()
    sent = _send(bodies, port, seconds, spans_per_second)
    report.send((sent.spans, sent.body_bytes, sent.refused, sent.from_ns, sent.to_ns, sent.cpu_seconds))


def _send(bodies: Sequence[Body], port: int, seconds: float, spans_per_second: float | None) -> Sent:
    spans = body_bytes = refused = begun = 0
    free = threading.Semaphore(CALLS_IN_FLIGHT)
    lock = threading.Lock()

    def done(call: grpc.Future, of_call: int, size: int) -> None:
        nonlocal spans, body_bytes, refused
        with lock:
            if call.code() is grpc.StatusCode.OK:
                spans, body_bytes = spans + of_call, body_bytes + size
            else:
                refused += 1
        free.release()

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        grpc.channel_ready_future(channel).result(10)
        export = channel.unary_unary(EXPORT)
        from_ns, cpu = time.time_ns(), time.process_time()
        started = time.perf_counter()
        for of_call, content in copies(bodies):
            due = 0.0 if spans_per_second is None else begun / spans_per_second
            waited = time.perf_counter() - started
            if max(due, waited) >= seconds:
                break
            if due > waited:
                time.sleep(due - waited)
            free.acquire()
            begun += of_call
            export.future(content, timeout=CALL_SECONDS).add_done_callback(partial(done, of_call=of_call, size=len(content)))
        for _ in range(CALLS_IN_FLIGHT):
            free.acquire()
        return Sent(spans, body_bytes, refused, from_ns, time.time_ns(), time.process_time() - cpu)
