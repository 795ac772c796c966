"""OTLP over gRPC. The handlers take raw bytes: grpcio decompresses (and stops at the size limit), the edge does the rest.

The unary calls are served as streams of one message: on the wire it is the same, and the body is read only after the key
and a place for it are there. (It is no slower.)
"""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc  # type: ignore[import-untyped]
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from grpc_status import rpc_status

from collectors.edge import COUNTERS, Accepted, Clock, Edge, Reason, Refused, response
from collectors.listen import CannotListen, Receiver, allowed_address, tls_files
from collectors.wire import Signal
from schemas.counters import Counters
from schemas.keys import Keyring, bearer_token
from schemas.log import AppendLog
from schemas.settings import Settings

SERVICES: dict[str, Signal] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "traces",
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
}
# RESOURCE_EXHAUSTED means "later" only together with RetryInfo (OTLP), which `too_large` never has; grpcio itself gives the
# same answer to a message above its limit, so that a sender sees one answer for both. UNAVAILABLE always means "later".
CODES: dict[Reason, grpc.StatusCode] = {
    "junk": grpc.StatusCode.INVALID_ARGUMENT,
    "too_large": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too_many_items": grpc.StatusCode.INVALID_ARGUMENT,
    "media_type": grpc.StatusCode.INVALID_ARGUMENT,
    "incomplete": grpc.StatusCode.CANCELLED,
    "no_key": grpc.StatusCode.UNAUTHENTICATED,
    "unknown_key": grpc.StatusCode.UNAUTHENTICATED,
    "not_allowed": grpc.StatusCode.PERMISSION_DENIED,
    "busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "log_full": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "log_unavailable": grpc.StatusCode.UNAVAILABLE,
}
# Threads beyond the places for bodies, so that somebody is free to say "busy".
SPARE_THREADS = 4
# Calls that wait for a thread; the last wall, grpcio refuses what is above it.
WAITING_CALLS = 256

logger = logging.getLogger(__name__)
Handler = Callable[[Iterator[bytes], grpc.ServicerContext], bytes]


def serve_grpc(settings: Settings, log: AppendLog, keys: Keyring, clock: Clock, counters: Counters | None = None) -> Receiver:
    """Listens on [receive] grpc and returns at once. The caller stops it, and closes the log after that. Raises CannotListen."""
    receive = settings.receive
    host, port = allowed_address("grpc", receive.grpc, keys)
    edge = Edge(receive, log, keys, clock, counters or Counters(COUNTERS), "grpc")
    threads = receive.max_bodies_in_flight + SPARE_THREADS
    pool = ThreadPoolExecutor(threads, thread_name_prefix="otlp-grpc")
    server = grpc.server(
        pool,
        handlers=[
            grpc.method_handlers_generic_handler(service, {"Export": grpc.stream_unary_rpc_method_handler(_export(edge, signal))})
            for service, signal in SERVICES.items()
        ],
        maximum_concurrent_rpcs=threads + WAITING_CALLS,
        options=[
            ("grpc.max_receive_message_length", receive.max_body_bytes),
            ("grpc.so_reuseport", 0),  # a second process on the port is an error, not a silent half of the traffic
            ("grpc.keepalive_time_ms", 60_000),  # a peer that vanished is noticed
        ],
    )
    tls = tls_files(receive)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        if tls is None:
            bound = server.add_insecure_port(address)
        else:
            credentials = grpc.ssl_server_credentials([(tls.key.read_bytes(), tls.cert.read_bytes())])
            bound = server.add_secure_port(address, credentials)
    except (RuntimeError, ValueError) as error:
        pool.shutdown()
        raise CannotListen(f"[receive] grpc = {receive.grpc!r}: {error}") from error
    server.start()
    if keys.ingest_is_open:
        logger.warning("OTLP/gRPC on %s:%d takes spans from every local process as `platform`: no [[key]] may ingest", host, bound)
    return _GrpcReceiver(server, pool, bound)


class _GrpcReceiver:
    def __init__(self, server: grpc.Server, pool: ThreadPoolExecutor, port: int) -> None:
        self._server, self._pool, self._port = server, pool, port

    @property
    def port(self) -> int:
        return self._port

    def stop(self, grace_s: float) -> None:
        self._server.stop(grace_s).wait()
        # The wait ends when every call is answered or cut off; a thread may still be appending for one that was cut off.
        self._pool.shutdown(wait=True, cancel_futures=True)


def _export(edge: Edge, signal: Signal) -> Handler:
    def handle(bodies: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        answer = decide(bodies, context)
        edge.count(signal, answer)
        if isinstance(answer, Refused):
            _abort(context, answer)
            return b""  # never reached: aborting raises
        told = response(answer)
        return b"" if told is None else told.SerializeToString()  # empty: an Export...Response without partial_success

    def decide(bodies: Iterator[bytes], context: grpc.ServicerContext) -> Accepted | Refused:
        sender = edge.admit(bearer_token(_authorization(context)))
        if isinstance(sender, Refused):
            return sender
        with edge.body_in_flight() as busy:
            if busy is not None:
                return busy
            try:
                body = next(bodies, None)
            except grpc.RpcError:  # grpcio has answered already: the message was too large, or the sender is gone
                return Refused("incomplete", "the call ended before its body was here")
            if body is None:
                return Refused("junk", "the call has no message")
            return edge.receive(signal, body, "protobuf", sender)

    return handle


def _authorization(context: grpc.ServicerContext) -> str | None:
    for name, value in context.invocation_metadata():
        if name == "authorization":
            return value if isinstance(value, str) else value.decode("latin-1")
    return None


def _abort(context: grpc.ServicerContext, refused: Refused) -> None:
    """Ends the call by raising, as grpcio does it."""
    code = CODES[refused.reason]
    if refused.retry_after_s is not None:
        retry = RetryInfo(retry_delay=Duration(seconds=refused.retry_after_s))
        status = Status(code=code.value[0], message=refused.message)
        status.details.add().Pack(retry)
        details = rpc_status.to_status(status).trailing_metadata
        # The Python SDK looks for the delay under a name of its own and not in the status details.
        context.set_trailing_metadata((*details, ("google.rpc.retryinfo-bin", retry.SerializeToString())))
    context.abort(code, refused.message)
