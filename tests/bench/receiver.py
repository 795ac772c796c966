"""How many spans a second one receiver process takes over gRPC, a sender process beside it on the same cores.

The sender posts encoded bodies of 500 spans that look like vLLM's (13 attributes, about 610 bytes a span).
"""

import multiprocessing
import random
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.otlp_grpc import serve_grpc
from schemas.keys import Keyring
from schemas.log import METRICS_TOPIC, TRACES_TOPIC, AppendLog
from schemas.settings import LogSettings, ReceiveSettings, Settings

SPANS_PER_BODY = 500
CALLS_IN_FLIGHT = 8
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LATENCIES = ("time_to_first_token", "e2e", "time_in_queue", "time_in_model_prefill", "time_in_model_decode", "time_in_model_inference")


class CountingLog:
    """Keeps nothing: the receiver alone is measured."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.bodies = 0

    def append(self, topic: str, headers: Mapping[str, str], value: bytes) -> None:
        with self._lock:
            self.bodies += 1

    def close(self) -> None: ...


def measure(log_url: str, seconds: float, attributes: int = 13) -> dict[str, float]:
    """`memory:` measures the receiver without a log, another URL with that log. The log is left as it is afterwards."""
    log = _open(log_url)
    settings = Settings(receive=ReceiveSettings(grpc="127.0.0.1:0"))
    receiver = serve_grpc(settings, log, Keyring(()), time.time_ns)
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    sender = spawn.Process(target=_send, args=(receiver.port, seconds, attributes, theirs), daemon=True)
    cpu_before = time.process_time()
    sender.start()
    ok, refused, elapsed, body_bytes = ours.recv()
    cpu = time.process_time() - cpu_before
    sender.join()
    receiver.stop(5)
    log.close()
    return {
        "spans_per_second": ok * SPANS_PER_BODY / elapsed,
        "bytes_per_second": ok * body_bytes / elapsed,
        "bodies": ok,
        "refused": refused,
        "receiver_cores": cpu / elapsed,
        "spans_per_core_second": ok * SPANS_PER_BODY / cpu,
    }


def _open(log_url: str) -> AppendLog:
    if log_url == "memory:":
        return CountingLog()
    from pipeline.log import open_append_log

    return open_append_log(LogSettings(url=log_url), ReceiveSettings().max_body_bytes, [TRACES_TOPIC, METRICS_TOPIC])


def body_of_spans(spans: int, seed: int, attributes: int = 13) -> bytes:
    """One encoded trace request; up to 13 attributes a span."""
    dice = random.Random(seed)
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    for key, value in {"service.name": "vllm-a", "service.instance.id": "a06f618a-eb11-4770-85eb-8fda2e5be60a"}.items():
        resource_spans.resource.attributes.add(key=key).value.string_value = value
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "vllm.tracing.otel"
    for _ in range(spans):
        started_ns = time.time_ns() - dice.randrange(10**9)
        span = scope_spans.spans.add(
            trace_id=dice.randbytes(16), span_id=dice.randbytes(8), parent_span_id=dice.randbytes(8), name="llm_request", kind=2
        )
        span.start_time_unix_nano, span.end_time_unix_nano = started_ns, started_ns + dice.randrange(10**10)
        for name in LATENCIES:
            span.attributes.add(key=f"gen_ai.latency.{name}").value.double_value = dice.random()
        for name in ("usage.prompt_tokens", "usage.completion_tokens", "request.max_tokens", "request.n"):
            span.attributes.add(key=f"gen_ai.{name}").value.int_value = dice.randrange(4096)
        for name in ("request.top_p", "request.temperature"):
            span.attributes.add(key=f"gen_ai.{name}").value.double_value = dice.random()
        span.attributes.add(key="gen_ai.request.id").value.string_value = f"chatcmpl-{dice.randrange(2**64):016x}"
        del span.attributes[attributes:]
    return request.SerializeToString()


def _send(port: int, seconds: float, attributes: int, report: Connection) -> None:
    bodies = [body_of_spans(SPANS_PER_BODY, seed, attributes) for seed in range(8)]
    ok = refused = sent = 0
    free = threading.Semaphore(CALLS_IN_FLIGHT)
    lock = threading.Lock()

    def done(call: grpc.Future) -> None:
        nonlocal ok, refused
        with lock:
            if call.code() is grpc.StatusCode.OK:
                ok += 1
            else:
                refused += 1
        free.release()

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        export = channel.unary_unary(METHOD)
        export(bodies[0], timeout=10)
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            free.acquire()
            export.future(bodies[sent % len(bodies)], timeout=30).add_done_callback(done)
            sent += 1
        for _ in range(CALLS_IN_FLIGHT):
            free.acquire()
        elapsed = time.perf_counter() - started
    report.send((ok, refused, elapsed, sum(map(len, bodies)) / len(bodies)))


if __name__ == "__main__":
    print({name: round(figure, 2) for name, figure in measure(sys.argv[1], float(sys.argv[2]), *map(int, sys.argv[3:])).items()})
