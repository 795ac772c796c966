"""Where spans go: `grpc://`, `grpcs://`, `http://`, `https://` receivers, or `file:DIR` (one OTLP body a file).

A batch is sent when the receiver has said OK to it. What it refuses for good, or still refuses after the retries, is SendFailed.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

import grpc  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from grpc_status import rpc_status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors.workload.errors import ReplayRefused, SendFailed
from collectors.workload.options import ReplayOptions
from collectors.workload.otlp_bytes import encode
from collectors.workload.spans import SpanData

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PATH = "/v1/traces"
TRIES = 8
DELAY_MAX_S = 10.0
RETRYABLE_STATUS = (429, 502, 503, 504)
RETRYABLE_CODES = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)

Sleep = Callable[[float], None]


class Sender(Protocol):
    def send(self, spans: Sequence[SpanData]) -> None:
        """Returns when the batch was taken. Raises SendFailed."""

    def close(self) -> None: ...


class Later(Exception):
    """The receiver asks for the same again, after a delay where it names one."""

    def __init__(self, why: str, delay_s: float | None = None) -> None:
        super().__init__(why)
        self.delay_s = delay_s


class Transport(Protocol):
    def post(self, body: bytes) -> bytes:
        """The body of the OK. Raises Later or SendFailed."""

    def close(self) -> None: ...


class BytesSender:
    """Encodes a batch and posts it, at most TRIES times."""

    def __init__(self, transport: Transport, target: str, resources: Mapping[str, Mapping[str, str]], scope: str, sleep: Sleep) -> None:
        self._transport, self._target, self._resources, self._scope, self._sleep = transport, target, resources, scope, sleep

    def send(self, spans: Sequence[SpanData]) -> None:
        body = encode(spans, self._resources, self._scope)
        for attempt in range(1, TRIES + 1):
            try:
                answer = ExportTraceServiceResponse.FromString(self._transport.post(body))
            except Later as later:
                if attempt == TRIES:
                    raise SendFailed(f"{self._target} did not take {len(spans)} spans in {TRIES} tries: {later}") from later
                self._sleep(min(DELAY_MAX_S, 0.1 * 2**attempt if later.delay_s is None else later.delay_s))
            except DecodeError as error:
                raise SendFailed(f"{self._target} answers with something that is no OTLP response; is it an OTLP receiver?") from error
            else:
                refused = answer.partial_success
                if refused.rejected_spans:
                    raise SendFailed(f"{self._target} refused {refused.rejected_spans} of {len(spans)} spans: {refused.error_message}")
                return

    def close(self) -> None:
        self._transport.close()


class GrpcTransport:
    """OTLP/gRPC with bodies that are encoded already."""

    def __init__(self, url: SplitResult, headers: Mapping[str, str], timeout_s: float) -> None:
        options = [("grpc.max_send_message_length", -1)]
        secure = url.scheme == "grpcs"
        self._channel = (
            grpc.secure_channel(url.netloc, grpc.ssl_channel_credentials(), options)
            if secure
            else grpc.insecure_channel(url.netloc, options)
        )
        self._export = self._channel.unary_unary(EXPORT)
        self._metadata, self._timeout_s, self._target = tuple(headers.items()), timeout_s, url.geturl()

    def post(self, body: bytes) -> bytes:
        try:
            return bytes(self._export(body, timeout=self._timeout_s, metadata=self._metadata))
        except grpc.RpcError as error:
            why = f"{error.code().name}: {error.details()}"
            if error.code() not in RETRYABLE_CODES:
                raise SendFailed(f"{self._target} refuses: {why}") from error
            raise Later(why, _retry_delay_s(error)) from error

    def close(self) -> None:
        self._channel.close()


def _retry_delay_s(error: grpc.RpcError) -> float | None:
    status = rpc_status.from_call(error)
    for detail in status.details if status is not None else ():
        retry = RetryInfo()
        if detail.Unpack(retry):
            return float(retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9)
    return None


class HttpTransport:
    """OTLP/HTTP with protobuf bodies over one kept connection."""

    def __init__(self, url: SplitResult, headers: Mapping[str, str], timeout_s: float) -> None:
        kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
        self._connection = kind(url.hostname or "", url.port, timeout=timeout_s)
        self._path = trace_path(url)
        self._headers = {"content-type": "application/x-protobuf", **headers}
        self._target = url.geturl()

    def post(self, body: bytes) -> bytes:
        try:
            self._connection.request("POST", self._path, body, self._headers)
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, HTTPException) as error:
            self._connection.close()
            raise Later(f"{type(error).__name__}: {error}") from error
        if response.status == 200:
            return answer
        if response.status in RETRYABLE_STATUS:
            asked = response.headers.get("retry-after", "")
            raise Later(f"HTTP {response.status}", float(asked) if asked.isdecimal() else None)
        raise SendFailed(f"{self._target} refuses: HTTP {response.status} {answer[:200].decode(errors='replace')}")

    def close(self) -> None:
        self._connection.close()


def trace_path(url: SplitResult) -> str:
    """The URL's own path, else OTLP's."""
    return url.path if url.path.strip("/") else PATH


class FileTransport:
    """`DIR/000001.binpb`, ...: one request body each."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.glob("*.binpb")):
            raise ReplayRefused(f"{directory} holds .binpb files already; give an empty directory, so that two replays do not mix")
        self._directory, self._written = directory, 0

    def post(self, body: bytes) -> bytes:
        self._written += 1
        (self._directory / f"{self._written:06d}.binpb").write_bytes(body)
        return b""

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def open_senders(
    options: ReplayOptions, resources: Mapping[str, Mapping[str, str]], scope: str, sleep: Sleep = time.sleep
) -> Iterator[list[Sender]]:
    """One sender for each target."""
    headers = {"authorization": f"Bearer {options.key.get_secret_value()}"} if options.key else {}
    with ExitStack() as stack:
        yield [stack.enter_context(closing(_sender(options, target, headers, resources, scope, sleep))) for target in options.to]


def _sender(
    options: ReplayOptions, target: str, headers: Mapping[str, str], resources: Mapping[str, Mapping[str, str]], scope: str, sleep: Sleep
) -> Sender:
    url = urlsplit(target)
    if url.scheme == "file":
        return BytesSender(FileTransport(Path(target.removeprefix("file:"))), target, resources, scope, sleep)
    if options.via == "bytes":
        kind = GrpcTransport if url.scheme in ("grpc", "grpcs") else HttpTransport
        return BytesSender(kind(url, headers, options.timeout_seconds), target, resources, scope, sleep)
    return _sdk_sender(url, headers, options.timeout_seconds, resources, scope)


def _sdk_sender(
    url: SplitResult, headers: Mapping[str, str], timeout_s: float, resources: Mapping[str, Mapping[str, str]], scope: str
) -> Sender:
    # Imported here: the SDK is an extra, and the bytes way does without it.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
    from opentelemetry.sdk.trace.export import SpanExporter

    from collectors.workload.otel_sdk import SdkSender

    exporter: SpanExporter
    if url.scheme in ("grpc", "grpcs"):
        endpoint = url._replace(scheme="https" if url.scheme == "grpcs" else "http").geturl()
        exporter = GrpcExporter(endpoint=endpoint, headers=tuple(headers.items()), timeout=timeout_s)
    else:
        exporter = HttpExporter(endpoint=url._replace(path=trace_path(url)).geturl(), headers=dict(headers), timeout=timeout_s)
    return SdkSender(exporter, url.geturl(), resources, scope)
