"""A replay's spans on the wire: the OpenTelemetry SDK and the direct way, against this project's receivers and some that refuse."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Literal

import grpc  # type: ignore[import-untyped]
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess, ExportTraceServiceResponse
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from collectors.listen import Receiver
from collectors.otlp_grpc import serve_grpc
from collectors.otlp_http import serve_http
from collectors.workload.emit import EXPORT, TRIES
from collectors.workload.errors import SendFailed
from collectors.workload.options import ReplayOptions
from collectors.workload.otel_sdk import SdkSender
from collectors.workload.otlp_bytes import encode
from collectors.workload.replay import ReplaySummary, replay
from collectors.workload.spans import SpanData
from schemas.keys import Keyring, hash_key
from schemas.log import Headers, LogFull
from schemas.settings import KeySettings, ReceiveSettings, Settings

START_NS = 1_790_000_100 * 10**9
Kind = Literal["grpc", "http"]


class Kept:
    """An append log in memory; refuses the first `refuse` appends."""

    def __init__(self, refuse: int = 0) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[Headers] = []
        self.refuse = refuse

    def append(self, topic: str, headers: Headers, value: bytes) -> None:
        if self.refuse:
            self.refuse -= 1
            raise LogFull("no room for now")
        self.bodies.append(value)
        self.headers.append(headers)

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def receiver(kind: Kind, log: Kept, *keys: KeySettings) -> Iterator[str]:
    settings = Settings(receive=ReceiveSettings(grpc="127.0.0.1:0", http="127.0.0.1:0"), key=keys)
    serve: Callable[..., Receiver] = serve_grpc if kind == "grpc" else serve_http
    running = serve(settings, log, Keyring(keys), lambda: START_NS)
    try:
        yield f"{kind}://127.0.0.1:{running.port}"
    finally:
        running.stop(1)


def send(to: str | tuple[str, ...], sleep: Callable[[float], None] = lambda seconds: None, **options: Any) -> ReplaySummary:
    defaults: dict[str, Any] = {"start_ns": START_NS, "to": to, "example_requests": 90, "timeout_seconds": 5}
    return replay(ReplayOptions(**(defaults | options)), lambda done, total: None, sleep=sleep)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The bodies that a directory gets."""
    folder = tmp_path_factory.mktemp("expected")
    send(f"file:{folder}")
    return [file.read_bytes() for file in sorted(folder.iterdir())]


@pytest.mark.parametrize("via", ["sdk", "bytes"])
@pytest.mark.parametrize("kind", ["grpc", "http"])
def test_both_ways_bring_the_same_bytes_over_both_protocols(kind: Kind, via: str, expected: list[bytes]) -> None:
    log = Kept()
    with receiver(kind, log) as to:
        summary = send(to, via=via)
    assert len(expected) == summary.batches > 2
    assert log.bodies == expected


def test_the_sdk_encodes_every_span_as_we_do() -> None:
    resources = {"gateway": {"service.name": "g"}, "r-0": {"service.name": "r", "tokenpath.replica.id": "r-0"}}
    spans = [
        SpanData(30, 10, "chat m", "client", 5, 6, 0, False, "gateway", {"a": "x", "b": True, "c": 3, "d": 0.5, "e": ("s", "t")}, None),
        SpanData(40, 20, "prefill", "internal", 5, 7, 6, True, "r-0", {}, None),
        SpanData(50, 20, "gateway", "server", 1 << 127, 1 << 63, 6, False, "gateway", {"e": ()}, "no attempt ended well"),
    ]
    sender = SdkSender(InMemorySpanExporter(), "memory", resources, "scope")
    made = sender.sdk_spans(spans)
    assert [span.name for span in made] == ["chat m", "prefill", "gateway"]
    assert encode_spans(made).SerializeToString() == encode(spans, resources, "scope")


def test_several_targets_take_batches_in_turn(expected: list[bytes]) -> None:
    first, second = Kept(), Kept()
    with receiver("grpc", first) as one, receiver("http", second) as two:
        send((one, two))
    assert (first.bodies, second.bodies) == (expected[::2], expected[1::2])


@pytest.mark.parametrize("via", ["sdk", "bytes"])
@pytest.mark.parametrize("kind", ["grpc", "http"])
def test_the_key_is_sent_and_a_wrong_one_is_an_error(kind: Kind, via: str) -> None:
    log, key = Kept(), KeySettings(name="edge", sha256=hash_key("secret"), principal="tenant/acme")
    with receiver(kind, log, key) as to:
        send(to, via=via, key="secret", example_requests=20)
        assert {headers["principal"] for headers in log.headers} == {"tenant/acme"}
        taken = len(log.bodies)
        with pytest.raises(SendFailed, match=r"did not take|UNAUTHENTICATED|401"):
            send(to, via=via, key="wrong", example_requests=20)
    assert len(log.bodies) == taken


@pytest.mark.parametrize("kind", ["grpc", "http"])
def test_a_full_log_is_waited_for_as_long_as_it_asks(kind: Kind, expected: list[bytes]) -> None:
    slept: list[float] = []
    log = Kept(refuse=2)
    with receiver(kind, log) as to:
        send(to, slept.append, via="bytes")
    assert log.bodies == expected
    assert slept == [5.0, 5.0]


@pytest.mark.parametrize("kind", ["grpc", "http"])
def test_a_receiver_that_never_takes_it_is_given_up(kind: Kind) -> None:
    slept: list[float] = []
    with receiver(kind, Kept(refuse=1000)) as to, pytest.raises(SendFailed, match=f"in {TRIES} tries"):
        send(to, slept.append, via="bytes", example_requests=20)
    assert len(slept) == TRIES - 1


@pytest.mark.parametrize("via", ["sdk", "bytes"])
@pytest.mark.parametrize("kind", ["grpc", "http"])
def test_nobody_at_the_address_is_an_error_and_not_silence(kind: Kind, via: str) -> None:
    with receiver(kind, Kept()) as gone:
        pass
    with pytest.raises(SendFailed):
        send(gone, via=via, example_requests=20, timeout_seconds=0.5)


@contextmanager
def grpc_answering(answer: bytes) -> Iterator[str]:
    def handle(body: bytes, context: grpc.ServicerContext) -> bytes:
        return answer

    server = grpc.server(ThreadPoolExecutor(1))
    service, method = EXPORT.strip("/").split("/")
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {method: grpc.unary_unary_rpc_method_handler(handle)})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def http_answering(status: int, answer: bytes, paths: list[str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            paths.append(self.path)
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_spans_that_a_receiver_rejects_are_an_error() -> None:
    partial = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=3, error_message="too old"))
    with grpc_answering(partial.SerializeToString()) as to, pytest.raises(SendFailed, match=r"refused 3 of .* too old"):
        send(to, via="bytes", example_requests=20)


@pytest.mark.parametrize(
    ("status", "answer", "why"), [(200, b"<html>", "is it an OTLP receiver"), (404, b"nothing here", "HTTP 404 nothing here")]
)
def test_something_that_is_no_receiver_is_an_error(status: int, answer: bytes, why: str) -> None:
    paths: list[str] = []
    with http_answering(status, answer, paths) as to:
        with pytest.raises(SendFailed, match=why):
            send(to, via="bytes", example_requests=20)
        with pytest.raises(SendFailed, match=why):
            send(f"{to}/custom/traces", via="bytes", example_requests=20)
    assert paths == ["/v1/traces", "/custom/traces"]


def test_files_are_written_through_neither_protocol(tmp_path: Path, expected: Sequence[bytes]) -> None:
    send(f"file:{tmp_path / 'a'}", via="bytes")
    assert [file.read_bytes() for file in sorted((tmp_path / "a").iterdir())] == expected
