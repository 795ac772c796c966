"""Both receivers on real sockets, with the real SDK's exporters and with raw requests."""

import gzip
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import httpx
import pytest
from google.protobuf import json_format
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from grpc_status import rpc_status
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from collectors.edge import COUNTERS
from collectors.listen import CannotListen, Receiver
from collectors.otlp_grpc import serve_grpc
from collectors.otlp_http import serve_http
from schemas.counters import Counters
from schemas.keys import Keyring, hash_key
from schemas.log import LogFull, LogUnavailable
from schemas.settings import KeySettings, ReceiveSettings, Settings
from tests.memory_log import MemoryLog
from tests.records import DYNAMO

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
NOW_NS = 1796075345851365888
KEYS = (
    KeySettings(name="gateway", sha256=hash_key("g-secret"), principal="platform", may=("ingest",)),
    KeySettings(name="acme", sha256=hash_key("a-secret"), principal="tenant/acme", may=("ingest",)),
    KeySettings(name="reader", sha256=hash_key("r-secret"), principal="platform", may=("read",)),
)
PROTOBUF: dict[str, Any] = {"content-type": "application/x-protobuf"}
JSON: dict[str, Any] = {"content-type": "application/json"}


class Running:
    """One log behind both receivers."""

    def __init__(self, log: MemoryLog, counters: Counters, grpc_port: int, http_port: int) -> None:
        self.log, self.counters, self.grpc_port, self.http_port = log, counters, grpc_port, http_port
        self.http_url = f"http://127.0.0.1:{http_port}"

    def post(self, path: str = "/v1/traces", body: bytes = b"", **headers: str) -> httpx.Response:
        return httpx.post(self.http_url + path, content=body, headers={name.replace("_", "-"): text for name, text in headers.items()})

    def export(self, body: bytes, method: str = TRACES, metadata: tuple[tuple[str, str], ...] = (), compression: Any = None) -> bytes:
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}", options=[("grpc.max_send_message_length", -1)]) as channel:
            answer: bytes = channel.unary_unary(method)(body, metadata=metadata, timeout=20, compression=compression)
            return answer


@contextmanager
def running(
    log: MemoryLog | None = None, keys: tuple[KeySettings, ...] = (), body_seconds: float = 10.0, **receive: Any
) -> Iterator[Running]:
    log = log or MemoryLog()
    settings = Settings(receive=ReceiveSettings(**{"grpc": "127.0.0.1:0", "http": "127.0.0.1:0", **receive}), key=keys)
    counters = Counters(COUNTERS)
    over_grpc = serve_grpc(settings, log, Keyring(keys), lambda: NOW_NS, counters)
    over_http = serve_http(settings, log, Keyring(keys), lambda: NOW_NS, counters, body_seconds)
    try:
        yield Running(log, counters, over_grpc.port, over_http.port)
    finally:
        over_grpc.stop(5)
        over_http.stop(5)


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    """One pair without keys, for the tests that need nothing special."""
    with running() as receivers:
        yield receivers


@pytest.fixture
def open_receivers(shared: Running) -> Running:
    shared.log.records.clear()
    return shared


def trace_body(spans: int = 1) -> bytes:
    request = ExportTraceServiceRequest()
    scope_spans = request.resource_spans.add().scope_spans.add()
    for number in range(spans):
        scope_spans.spans.add(trace_id=b"t" * 16, span_id=(number + 1).to_bytes(8, "big"), name="chat m")
    return request.SerializeToString()


def refusal(call: Callable[[], Any]) -> Any:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


def delay_s(error: Any) -> int | None:
    """The delay of a gRPC refusal, as a client finds it in the status details."""
    status = rpc_status.from_call(error)
    if status is None:
        return None
    retry = RetryInfo()
    assert status.details[0].Unpack(retry)
    return int(retry.retry_delay.seconds)


# --- the real SDK --------------------------------------------------------------------------------------------------------


def span_exporters(receivers: Running, **headers: str) -> dict[str, SpanExporter]:
    traces_url = f"{receivers.http_url}/v1/traces"
    grpc_url = f"http://127.0.0.1:{receivers.grpc_port}"
    return {
        "grpc": GrpcSpanExporter(endpoint=grpc_url, insecure=True, headers=headers),
        "grpc gzip": GrpcSpanExporter(endpoint=grpc_url, insecure=True, headers=headers, compression=grpc.Compression.Gzip),
        "http": HttpSpanExporter(endpoint=traces_url, headers=headers),
        "http gzip": HttpSpanExporter(endpoint=traces_url, headers=headers, compression=Compression.Gzip),
    }


def send_spans(exporter: SpanExporter, names: list[str]) -> bool:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    for name in names:
        with tracer.start_as_current_span(name) as span:
            span.set_attribute("gen_ai.usage.input_tokens", 7)
            span.add_event("first token", {"n": 1})
    flushed = provider.force_flush(20_000)
    provider.shutdown()
    return flushed


@pytest.mark.parametrize("which", ["grpc", "grpc gzip", "http", "http gzip"])
def test_spans_of_the_sdk_arrive(open_receivers: Running, which: str) -> None:
    assert send_spans(span_exporters(open_receivers)[which], ["a", "b"])
    (record,) = open_receivers.log.records
    assert record.topic == "otlp_spans"
    assert record.headers == {"principal": "platform", "ingest_key": "", "received_ns": str(NOW_NS), "content": "otlp_proto"}
    request = ExportTraceServiceRequest.FromString(record.value)
    spans = request.resource_spans[0].scope_spans[0].spans
    assert [(span.name, span.attributes[0].value.int_value, span.events[0].name) for span in spans] == [
        ("a", 7, "first token"), ("b", 7, "first token"),
    ]  # fmt: skip


@pytest.mark.parametrize("which", ["grpc", "http"])
def test_metrics_of_the_sdk_arrive(open_receivers: Running, which: str) -> None:
    if which == "grpc":
        exporter: Any = GrpcMetricExporter(endpoint=f"http://127.0.0.1:{open_receivers.grpc_port}", insecure=True)
    else:
        exporter = HttpMetricExporter(endpoint=f"{open_receivers.http_url}/v1/metrics")
    provider = MeterProvider(metric_readers=[PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)])
    provider.get_meter("test").create_histogram("ttft", unit="s").record(0.25)
    assert provider.force_flush(20_000)
    (record,) = open_receivers.log.records
    provider.shutdown(20_000)
    assert record.topic == "otlp_metrics"
    request = ExportMetricsServiceRequest.FromString(record.value)
    assert request.resource_metrics[0].scope_metrics[0].metrics[0].name == "ttft"


@pytest.mark.parametrize("which", ["grpc", "http"])
def test_the_sdk_sends_again_until_the_log_takes_it(which: str) -> None:
    failures = iter([LogUnavailable("away"), LogFull("full")])

    def fail_twice() -> None:
        for error in failures:
            raise error

    log = MemoryLog(before_append=fail_twice)
    with short_retries(), running(log) as receivers:
        assert send_spans(span_exporters(receivers)[which], ["a"])
    assert log.attempts == 3
    assert len(log.records) == 1


@contextmanager
def short_retries() -> Iterator[None]:
    """Our delays as 1 s, so that the exporter's deadline of 10 s has room for them."""
    from collectors.edge import RETRY_AFTER_SECONDS

    usual = dict(RETRY_AFTER_SECONDS)
    RETRY_AFTER_SECONDS.update(dict.fromkeys(usual, 1))
    try:
        yield
    finally:
        RETRY_AFTER_SECONDS.update(usual)


@pytest.mark.parametrize("which", ["grpc", "http"])
def test_a_key_of_a_tenant_names_the_sender(which: str) -> None:
    with running(keys=KEYS) as receivers:
        assert send_spans(span_exporters(receivers, authorization="Bearer a-secret")[which], ["a"])
        (record,) = receivers.log.records
    assert (record.headers["principal"], record.headers["ingest_key"]) == ("tenant/acme", "acme")


# --- answers -------------------------------------------------------------------------------------------------------------


def test_http_answers_in_the_encoding_of_the_request(open_receivers: Running) -> None:
    answer = open_receivers.post(body=trace_body(), **PROTOBUF)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
    assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "ab" * 16, "name": "x"}]}]}]}).encode()
    answer = open_receivers.post(body=body, content_type="application/json; charset=utf-8")
    assert (answer.status_code, answer.json()) == (200, {})
    assert len(open_receivers.log.records) == 2
    assert open_receivers.log.records[0].value == trace_body()


def test_junk_is_400_with_a_status_in_the_encoding_of_the_request(open_receivers: Running) -> None:
    answer = open_receivers.post(body=b"\xff\xff", **PROTOBUF)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/x-protobuf")
    assert Status.FromString(answer.content).code == 3
    answer = open_receivers.post(body=b"{", **JSON)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json")
    assert json_format.Parse(answer.content, Status()).message.startswith("not OTLP/JSON traces")
    answer = open_receivers.post(body=b"not gzip", content_encoding="gzip", **PROTOBUF)
    assert answer.status_code == 400
    error = refusal(lambda: open_receivers.export(b"\xff\xff"))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not open_receivers.log.records


def test_empty_requests_are_ok_and_store_nothing(open_receivers: Running) -> None:
    assert open_receivers.export(b"") == b""
    assert open_receivers.post(body=b"", **PROTOBUF).status_code == 200
    assert open_receivers.post(body=b"{}", **JSON).status_code == 200
    assert not open_receivers.log.records


def test_other_paths_methods_types_and_encodings_are_refused(open_receivers: Running) -> None:
    assert open_receivers.post("/v1/profiles", **PROTOBUF).status_code == 404
    assert httpx.get(open_receivers.http_url + "/v1/traces").status_code == 405
    assert open_receivers.post(body=trace_body(), content_type="text/plain").status_code == 415
    assert open_receivers.post(body=trace_body()).status_code == 415
    assert open_receivers.post(body=trace_body(), content_encoding="br", **PROTOBUF).status_code == 415
    other = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
    assert refusal(lambda: open_receivers.export(b"", other)).code() is grpc.StatusCode.UNIMPLEMENTED
    assert not open_receivers.log.records


def test_without_a_valid_key_nothing_gets_in() -> None:
    with running(keys=KEYS) as receivers:
        for authorization, status, code in (
            (None, 401, grpc.StatusCode.UNAUTHENTICATED),
            ("Bearer wrong", 401, grpc.StatusCode.UNAUTHENTICATED),
            ("Basic g-secret", 401, grpc.StatusCode.UNAUTHENTICATED),
            ("Bearer r-secret", 403, grpc.StatusCode.PERMISSION_DENIED),
        ):
            headers: dict[str, Any] = {"authorization": authorization} if authorization else {}
            assert receivers.post(body=trace_body(), **PROTOBUF, **headers).status_code == status
            metadata = tuple(headers.items())
            assert refusal(partial(receivers.export, trace_body(), metadata=metadata)).code() is code
        assert receivers.post(**PROTOBUF).headers["www-authenticate"] == "Bearer"
        assert not receivers.log.records
        assert receivers.post(body=trace_body(), authorization="bearer g-secret", **PROTOBUF).status_code == 200
        assert receivers.counters.value("tokenpath_receiver_bodies_total", result="unknown_key") == 2
        assert receivers.counters.value("tokenpath_receiver_bodies_total", result="accepted") == 1


def test_a_grpc_sender_without_a_key_is_refused_before_its_body_is_there() -> None:
    never = threading.Event()

    def body_that_does_not_come() -> Iterator[bytes]:
        never.wait(30)
        yield trace_body()

    with running(keys=KEYS) as receivers, grpc.insecure_channel(f"127.0.0.1:{receivers.grpc_port}") as channel:
        error = refusal(lambda: channel.stream_unary(TRACES)(body_that_does_not_come(), timeout=20))
        never.set()
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_grpc_call_without_a_message_is_junk(open_receivers: Running) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{open_receivers.grpc_port}") as channel:
        error = refusal(lambda: channel.stream_unary(TRACES)(iter(()), timeout=20))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


# --- limits --------------------------------------------------------------------------------------------------------------


def test_bodies_above_the_limit_are_refused_compressed_or_not() -> None:
    with running(max_body_bytes=10_000) as receivers:
        too_long = trace_body(1000)
        assert len(too_long) > 10_000
        assert receivers.post(body=too_long, **PROTOBUF).status_code == 413
        assert receivers.post(body=too_long * 100, **PROTOBUF).status_code == 413
        assert receivers.post(body=gzip.compress(too_long), content_encoding="gzip", **PROTOBUF).status_code == 413
        assert receivers.post(body=gzip.compress(bytes(50_000_000)), content_encoding="gzip", **PROTOBUF).status_code == 413
        for body, compression in ((too_long, None), (too_long, grpc.Compression.Gzip), (bytes(50_000_000), grpc.Compression.Gzip)):
            error = refusal(partial(receivers.export, body, compression=compression))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert delay_s(error) is None  # without a delay, OTLP clients do not send it again
        assert not receivers.log.records
        assert receivers.counters.value("tokenpath_receiver_bodies_total", transport="http", result="too_large") == 4
        receivers.export(trace_body(100), compression=grpc.Compression.Gzip)
        assert len(receivers.log.records) == 1


def test_too_many_spans_are_refused() -> None:
    with running(max_spans_per_body=10) as receivers:
        assert receivers.post(body=trace_body(11), **PROTOBUF).status_code == 413
        assert refusal(lambda: receivers.export(trace_body(11))).code() is grpc.StatusCode.INVALID_ARGUMENT
        assert receivers.post(body=trace_body(10), **PROTOBUF).status_code == 200


def test_a_sender_that_stops_in_the_middle_of_a_body_loses_its_place() -> None:
    with (
        running(body_seconds=0.2, max_bodies_in_flight=1) as receivers,
        socket.create_connection(("127.0.0.1", receivers.http_port)) as slow,
    ):
        slow.sendall(b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 100\r\n\r\nabc")
        assert slow.recv(100).startswith(b"HTTP/1.1 408")
        assert receivers.post(body=trace_body(), **PROTOBUF).status_code == 200


class Held:
    """A log whose appends wait until they are let go."""

    def __init__(self) -> None:
        self.reached, self.go = threading.Semaphore(0), threading.Event()
        self.log = MemoryLog(before_append=self.hold)

    def hold(self) -> None:
        self.reached.release()
        assert self.go.wait(20)


def test_more_bodies_than_places_are_told_to_come_again() -> None:
    held = Held()
    with running(held.log, max_bodies_in_flight=1) as receivers:
        senders = [
            threading.Thread(target=lambda: receivers.export(trace_body())),
            threading.Thread(target=lambda: receivers.post(body=trace_body(), **PROTOBUF)),
        ]
        for sender in senders:
            sender.start()
            assert held.reached.acquire(timeout=20)
        answer = receivers.post(body=trace_body(), **PROTOBUF)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        error = refusal(lambda: receivers.export(trace_body()))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert delay_s(error) == 1
        held.go.set()
        for sender in senders:
            sender.join()
        assert len(held.log.records) == 2
        assert receivers.export(trace_body()) == b""


@pytest.mark.parametrize(
    ("error", "http_status", "code", "after_s"),
    [(LogFull("disk"), 429, grpc.StatusCode.RESOURCE_EXHAUSTED, 5), (LogUnavailable("broker"), 503, grpc.StatusCode.UNAVAILABLE, 10)],
)
def test_a_log_that_is_full_or_away_is_an_answer_to_come_again(error: Exception, http_status: int, code: Any, after_s: int) -> None:
    def fail() -> None:
        raise error

    with running(MemoryLog(before_append=fail)) as receivers:
        answer = receivers.post(body=trace_body(), **PROTOBUF)
        assert (answer.status_code, answer.headers["retry-after"]) == (http_status, str(after_s))
        refused = refusal(lambda: receivers.export(trace_body()))
        assert refused.code() is code
        assert delay_s(refused) == after_s


def test_a_bug_in_the_log_is_never_an_ok() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with running(MemoryLog(before_append=fail)) as receivers:
        assert receivers.post(body=trace_body(), **PROTOBUF).status_code == 500
        assert refusal(lambda: receivers.export(trace_body())).code() is grpc.StatusCode.UNKNOWN


# --- starting and stopping -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serve", [serve_grpc, serve_http])
def test_stopping_finishes_what_was_taken_and_takes_no_more(serve: Callable[..., Receiver]) -> None:
    held = Held()
    settings = Settings(receive=ReceiveSettings(grpc="127.0.0.1:0", http="127.0.0.1:0"))
    receiver = serve(settings, held.log, Keyring(()), lambda: NOW_NS)
    both = Running(held.log, Counters({}), receiver.port, receiver.port)
    answers: list[Any] = []
    send = (lambda: both.export(trace_body())) if serve is serve_grpc else (lambda: both.post(body=trace_body(), **PROTOBUF).status_code)
    sender = threading.Thread(target=lambda: answers.append(send()))
    sender.start()
    assert held.reached.acquire(timeout=20)
    stopper = threading.Thread(target=receiver.stop, args=(20.0,))
    stopper.start()
    refused_by = time.monotonic() + 20
    while accepts_connections(receiver.port):
        assert time.monotonic() < refused_by
    assert stopper.is_alive()
    held.go.set()
    stopper.join(20)
    sender.join(20)
    assert not stopper.is_alive()
    assert answers == [b"" if serve is serve_grpc else 200]
    assert len(held.log.records) == 1


def connection(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def accepts_connections(port: int) -> bool:
    try:
        connection(port).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("serve", [serve_grpc, serve_http])
def test_an_address_in_use_is_one_line_for_the_operator(serve: Callable[..., Receiver]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CannotListen, match=address):
            serve(Settings(receive=ReceiveSettings(grpc=address, http=address)), MemoryLog(), Keyring(()), lambda: NOW_NS)


@pytest.mark.parametrize("serve", [serve_grpc, serve_http])
def test_an_open_address_without_ingest_keys_is_not_served(serve: Callable[..., Receiver]) -> None:
    settings = Settings(receive=ReceiveSettings(grpc="0.0.0.0:0", http="0.0.0.0:0"), key=KEYS)
    with pytest.raises(CannotListen, match="loopback"):
        serve(settings, MemoryLog(), Keyring(KEYS[2:]), lambda: NOW_NS)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of our own for localhost."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not here to make a certificate")
    where = tmp_path_factory.mktemp("tls")
    cert, key = where / "cert.pem", where / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert,
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def test_both_receivers_speak_tls(tls: tuple[Path, Path]) -> None:
    cert, key = tls
    with running(tls_cert_file=str(cert), tls_key_file=str(key)) as receivers:
        credentials = grpc.ssl_channel_credentials(cert.read_bytes())
        with grpc.secure_channel(f"localhost:{receivers.grpc_port}", credentials) as channel:
            assert channel.unary_unary(TRACES)(trace_body(), timeout=20) == b""
        trusted = ssl.create_default_context(cafile=str(cert))
        url = f"https://localhost:{receivers.http_port}/v1/traces"
        assert httpx.post(url, content=trace_body(), headers=PROTOBUF, verify=trusted).status_code == 200
        assert len(receivers.log.records) == 2
        with pytest.raises(httpx.HTTPError):
            receivers.post(body=trace_body(), **PROTOBUF)


@pytest.mark.parametrize("serve", [serve_grpc, serve_http])
def test_tls_files_that_cannot_be_used_are_one_line_for_the_operator(
    serve: Callable[..., Receiver], tls: tuple[Path, Path], tmp_path: Path
) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    for cert, key in ((tls[0], ""), (tls[0], tmp_path / "absent.pem"), (junk, junk)):
        receive = ReceiveSettings(grpc="127.0.0.1:0", http="127.0.0.1:0", tls_cert_file=str(cert), tls_key_file=str(key))
        with pytest.raises(CannotListen, match=r"\[receive\]"):
            serve(Settings(receive=receive), MemoryLog(), Keyring(()), lambda: NOW_NS)


# --- per-request records as logs -----------------------------------------------------------------------------------------


def log_request() -> ExportLogsServiceRequest:
    """A Dynamo record, and a line that is none."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    records.add().attributes.add(key="payload").value.string_value = json.dumps(DYNAMO)
    records.add().body.string_value = "starting"
    return request


@pytest.mark.parametrize("way", ["grpc", "grpc gzip", "http", "http gzip", "http json"])
def test_records_that_come_as_logs_are_kept_and_others_are_told(open_receivers: Running, way: str) -> None:
    body = log_request().SerializeToString()
    compression = grpc.Compression.Gzip if way.endswith("gzip") else None
    if way.startswith("grpc"):
        answer = ExportLogsServiceResponse.FromString(open_receivers.export(body, LOGS, compression=compression))
    elif way == "http json":
        sent = open_receivers.post("/v1/logs", json_format.MessageToJson(log_request()).encode(), **JSON)
        assert sent.status_code == 200
        answer = json_format.Parse(sent.text, ExportLogsServiceResponse())
    else:
        headers = {"content_encoding": "gzip"} if compression else {}
        sent = open_receivers.post("/v1/logs", gzip.compress(body) if compression else body, **PROTOBUF, **headers)
        assert (sent.status_code, sent.headers["content-type"]) == (200, "application/x-protobuf")
        answer = ExportLogsServiceResponse.FromString(sent.content)
    assert answer.partial_success.rejected_log_records == 1
    assert "not a per-request record" in answer.partial_success.error_message
    [record] = open_receivers.log.records
    assert record.topic == "otlp_spans"
    spans = ExportTraceServiceRequest.FromString(record.value).resource_spans[0].scope_spans[0].spans
    assert [span.name for span in spans] == ["inference"]


def test_logs_without_a_record_are_never_a_plain_ok(open_receivers: Running) -> None:
    request = log_request()
    del request.resource_logs[0].scope_logs[0].log_records[0]
    answer = ExportLogsServiceResponse.FromString(open_receivers.export(request.SerializeToString(), LOGS))
    assert answer.partial_success.rejected_log_records == 1
    assert not open_receivers.log.records
    assert open_receivers.post("/v1/logs", b"\xff\xff", **PROTOBUF).status_code == 400
