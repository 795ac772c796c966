"""OTLP over HTTP: POST /v1/traces, /v1/metrics and /v1/logs, protobuf or JSON, gzip or plain. Starlette under uvicorn, in one thread."""

import asyncio
import logging
import socket
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from google.protobuf import json_format
from google.rpc import code_pb2  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from collectors.edge import COUNTERS, Accepted, Clock, Content, Edge, Limits, Reason, Refused, response, too_large
from collectors.listen import CannotListen, Receiver, allowed_address, tls_files
from collectors.wire import Signal
from schemas.counters import Counters
from schemas.keys import Identity, Keyring, bearer_token
from schemas.log import AppendLog
from schemas.settings import Settings

PATHS: dict[str, Signal] = {"/v1/traces": "traces", "/v1/metrics": "metrics", "/v1/logs": "logs"}
MEDIA_TYPES: dict[str, Content] = {"application/x-protobuf": "protobuf", "application/json": "json"}
# OTLP clients retry 429, 502, 503 and 504, and nothing else.
ANSWERS: dict[Reason, tuple[int, int]] = {
    "junk": (400, code_pb2.INVALID_ARGUMENT),
    "too_large": (413, code_pb2.INVALID_ARGUMENT),
    "too_many_items": (413, code_pb2.INVALID_ARGUMENT),
    "media_type": (415, code_pb2.INVALID_ARGUMENT),
    "incomplete": (408, code_pb2.DEADLINE_EXCEEDED),
    "no_key": (401, code_pb2.UNAUTHENTICATED),
    "unknown_key": (401, code_pb2.UNAUTHENTICATED),
    "not_allowed": (403, code_pb2.PERMISSION_DENIED),
    "busy": (429, code_pb2.RESOURCE_EXHAUSTED),
    "log_full": (429, code_pb2.RESOURCE_EXHAUSTED),
    "log_unavailable": (503, code_pb2.UNAVAILABLE),
}
BODY_SECONDS = 30.0  # a sender that needs longer for one body gives its place to others
KEEP_ALIVE_SECONDS = 75  # above the usual export interval of 5 to 60 s: a connection closed just then looks like a failure

logger = logging.getLogger(__name__)


def serve_http(
    settings: Settings, log: AppendLog, keys: Keyring, clock: Clock, counters: Counters | None = None, body_seconds: float = BODY_SECONDS
) -> Receiver:
    """Listens on [receive] http and returns at once. The caller stops it, and closes the log after that. Raises CannotListen."""
    receive = settings.receive
    host, port = allowed_address("http", receive.http, keys)
    tls = tls_files(receive)
    edge = Edge(receive, log, keys, clock, counters or Counters(COUNTERS), "http")
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512)
    except OSError as error:
        raise CannotListen(f"[receive] http = {receive.http!r}: {error.strerror}") from error
    pool = ThreadPoolExecutor(receive.max_bodies_in_flight, thread_name_prefix="otlp-http")
    config = uvicorn.Config(
        http_app(edge, pool, body_seconds),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        ssl_certfile=tls.cert if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
    try:
        config.load()
    except (OSError, ValueError) as error:
        listener.close()
        raise CannotListen(f"[receive] tls_cert_file, tls_key_file: {error}") from error
    bound = listener.getsockname()[1]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="otlp-http", daemon=True)
    thread.start()
    if keys.ingest_is_open:
        logger.warning("OTLP/HTTP on %s:%d takes spans from every local process as `platform`: no [[key]] may ingest", host, bound)
    return _HttpReceiver(server, thread, pool, bound)


class _HttpReceiver:
    def __init__(self, server: uvicorn.Server, thread: threading.Thread, pool: ThreadPoolExecutor, port: int) -> None:
        self._server, self._thread, self._pool, self._port = server, thread, pool, port

    @property
    def port(self) -> int:
        return self._port

    def stop(self, grace_s: float) -> None:
        self._server.config.timeout_graceful_shutdown = max(1, round(grace_s))
        self._server.should_exit = True
        self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)


def http_app(edge: Edge, pool: ThreadPoolExecutor, body_seconds: float) -> Starlette:
    """The ASGI application."""

    def export(signal: Signal) -> Route:
        async def handle(request: Request) -> Response:
            media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            content = MEDIA_TYPES.get(media_type)
            try:
                answer = await _decide(edge, pool, body_seconds, signal, content, request)
            except ClientDisconnect:
                answer = Refused("incomplete", "the connection was closed before the body was complete")
            edge.count(signal, answer)
            return _respond(answer, content or "json")

        return Route(f"/v1/{signal}", handle, methods=["POST"])

    return Starlette(routes=[export(signal) for signal in PATHS.values()])


async def _decide(
    edge: Edge, pool: ThreadPoolExecutor, body_seconds: float, signal: Signal, content: Content | None, request: Request
) -> Accepted | Refused:
    async def drained(refused: Refused) -> Refused:
        await _read(request, 0, edge.limits, body_seconds)
        return refused

    sender = edge.admit(bearer_token(request.headers.get("authorization")))
    if isinstance(sender, Refused):
        return await drained(sender)
    if content is None:
        return await drained(Refused("media_type", f"content-type must be one of {', '.join(MEDIA_TYPES)}"))
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        return await drained(Refused("media_type", f"content-encoding {encoding!r} is not taken, only gzip and identity are"))
    with edge.body_in_flight() as busy:
        if busy is not None:
            return await drained(busy)
        raw = await _read(request, edge.limits.body_bytes, edge.limits, body_seconds)
        if isinstance(raw, Refused):
            return raw
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(pool, _unpack_and_receive, edge, signal, raw, encoding == "gzip", content, sender)


async def _read(request: Request, keep_bytes: int, limits: Limits, body_seconds: float) -> bytes | Refused:
    """The body as sent. What is above keep_bytes is read and thrown away up to four times the limit, because a client that
    is still sending does not see an answer on a connection that gets closed."""
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(body_seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= keep_bytes:
                    chunks.append(chunk)
                else:
                    chunks.clear()
                    if size > 4 * limits.body_bytes:
                        break
    except TimeoutError:
        return Refused("incomplete", f"the body was not complete after {body_seconds:g} s")
    return b"".join(chunks) if size <= keep_bytes else too_large(limits)


def _unpack_and_receive(edge: Edge, signal: Signal, raw: bytes, gzipped: bool, content: Content, sender: Identity) -> Accepted | Refused:
    body = gunzip(raw, edge.limits) if gzipped else raw
    return body if isinstance(body, Refused) else edge.receive(signal, body, content, sender)


def gunzip(raw: bytes, limits: Limits) -> bytes | Refused:
    """Stops one byte above the limit, whatever the rest would have become. Several members in a row are one body."""
    parts: list[bytes] = []
    left = limits.body_bytes + 1
    while raw:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            parts.append(unpacker.decompress(raw, left))
        except zlib.error as error:
            return Refused("junk", f"the body is not gzip: {error}")
        left -= len(parts[-1])
        if left <= 0:
            return too_large(limits)
        if not unpacker.eof:
            return Refused("junk", "the gzip body ends too early")
        raw = unpacker.unused_data
    return b"".join(parts)


def _respond(answer: Accepted | Refused, content: Content) -> Response:
    media_type = next(name for name, value in MEDIA_TYPES.items() if value == content)
    if isinstance(answer, Accepted):
        told = response(answer)
        if told is None:
            return Response(b"" if content == "protobuf" else b"{}", media_type=media_type)
        return Response(
            told.SerializeToString() if content == "protobuf" else json_format.MessageToJson(told, indent=None), media_type=media_type
        )
    status_code, rpc_code = ANSWERS[answer.reason]
    status = Status(code=rpc_code, message=answer.message)
    body = status.SerializeToString() if content == "protobuf" else json_format.MessageToJson(status, indent=None).encode()
    headers = {}
    if answer.retry_after_s is not None:
        headers["retry-after"] = str(answer.retry_after_s)
    if status_code == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(body, status_code, headers, media_type)
