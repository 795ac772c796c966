"""ClickHouse's HTTP interface over the embedded engine, so that the CLI, Grafana and other clients work beside `tokenpath up`.

Reads go through the guard and the principal's table filters (embedded.py); a key that `may` admin also writes. A key is
asked for even on loopback: as `Authorization: Bearer`, HTTP Basic, or X-ClickHouse-User and X-ClickHouse-Key.
"""

import base64
import re
import uuid
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import lz4.frame
import zstandard
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pipeline.serving.embedded import EmbeddedEngine, QueryRefused
from schemas.keys import bearer_token
from schemas.settings import Permission

MAX_BODY_BYTES = 64 * 1024 * 1024
STATEMENTS_AT_ONCE_MAX = 8  # a dashboard asks for a dozen panels at once; each may use READER_LIMITS' memory
STATEMENTS_WAITING_MAX = 100
ZSTD_STEP_BYTES = 1024  # becomes 32 MiB at most
# Parameters of the HTTP interface itself; with a writer every other one is a setting, with a reader it is dropped.
TRANSPORT = frozenset(
    {
        "query", "database", "default_format", "query_id", "session_id", "session_timeout", "session_check", "user", "password", "compress",
        "decompress", "enable_http_compression", "http_zlib_compression_level",
        "wait_end_of_query", "buffer_size", "client_protocol_version",
        "send_progress_in_http_headers", "http_headers_progress_interval_ms", "role", "quota_key", "readonly",
    }
)  # fmt: skip
QUERY_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
ERROR_CODE = re.compile(r"Code: (\d+)\.")


class Reader(Protocol):
    """What authentication says of a caller."""

    @property
    def principal(self) -> str: ...


Authenticate = Callable[[str | None, Permission], Reader | None]  # (key, "read" | "admin") -> who, or None


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    data: bytes
    parameters: Mapping[str, str]
    settings: Mapping[str, str]
    form: str


def endpoint_app(engine: EmbeddedEngine, authenticate: Authenticate) -> Starlette:
    """The ASGI application for `[serve] clickhouse_http`."""

    turns = CapacityLimiter(STATEMENTS_AT_ONCE_MAX)

    async def ping(_: Request) -> Response:
        return PlainTextResponse("Ok.\n")

    async def statement(request: Request) -> Response:
        key = presented_key(request.headers)
        admin = authenticate(key, "admin")
        reader = admin or authenticate(key, "read")
        if reader is None:
            return _error(403, 516, "Authentication failed: send a key that may read ('tokenpath keys new'; [[key]] in tokenpath.toml)")
        try:
            wanted = parse(dict(request.query_params), await _body(request))
            run = _writer(engine, wanted) if admin else _reader(engine, reader.principal, wanted)
            if turns.statistics().tasks_waiting >= STATEMENTS_WAITING_MAX:
                return _error(503, 202, f"Too many simultaneous queries: {STATEMENTS_WAITING_MAX} wait already; try again")
            body, form = await to_thread.run_sync(run, limiter=turns)
        except QueryRefused as error:
            return _error(403 if error.code == 497 else 400, error.code, str(error))
        except RuntimeError as error:
            text = str(error)
            code = ERROR_CODE.search(text)
            return _error(400, int(code.group(1)) if code else 1002, text)
        headers = {"X-ClickHouse-Format": form, "X-ClickHouse-Timezone": "UTC", "X-ClickHouse-Summary": "{}"}
        asked = request.query_params.get("query_id", "")
        headers["X-ClickHouse-Query-Id"] = asked if QUERY_ID.fullmatch(asked) else str(uuid.uuid4())
        return Response(body, media_type="application/octet-stream", headers=headers)

    return Starlette(routes=[Route("/ping", ping, methods=["GET", "HEAD"]), Route("/", statement, methods=["GET", "POST"])])


def presented_key(headers: Mapping[str, str]) -> str | None:
    """The key of a request, however it came. The user name is ignored: the key says who it is."""
    if headers.get("x-clickhouse-key"):
        return headers["x-clickhouse-key"]
    authorization = headers.get("authorization", "")
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2] or None
        except ValueError:  # not base64, or not text
            return None
    return bearer_token(authorization)


def parse(query: Mapping[str, str], body: bytes) -> Statement:
    """ClickHouse's rule: the statement is `query` followed by the body; after an INSERT in `query` the body is data."""
    parameters = {name.removeprefix("param_"): value for name, value in query.items() if name.startswith("param_")}
    settings = {name: value for name, value in query.items() if name not in TRANSPORT and not name.startswith("param_")}
    text = query.get("query", "")
    data = b""
    if re.match(r"\s*insert\b", text, re.IGNORECASE) and body:
        data = body
    else:
        text = (text + "\n" + body.decode("utf-8", "replace")).strip()
    if data == b"" and (inline := _inline_insert(text)):
        text, data = inline
    if not text:
        raise QueryRefused("no statement: send it in the body or as ?query=", 62)
    return Statement(text, data, parameters, settings, query.get("default_format", "TabSeparated"))


def _inline_insert(text: str) -> tuple[str, bytes] | None:
    """`INSERT … FORMAT X` with its rows behind the first line break, as one body."""
    found = re.match(r"(\s*insert\b.*?\bformat\s+\w+)[ \t]*\r?\n(.+)", text, re.IGNORECASE | re.DOTALL)
    return (found.group(1), found.group(2).encode()) if found else None


def _reader(engine: EmbeddedEngine, principal: str, wanted: Statement) -> Callable[[], tuple[bytes, str]]:
    if wanted.data:
        raise QueryRefused("this key may read only")
    return lambda: engine.read(principal, wanted.sql, wanted.parameters, wanted.form)


def _writer(engine: EmbeddedEngine, wanted: Statement) -> Callable[[], tuple[bytes, str]]:
    return lambda: engine.write(wanted.sql, wanted.parameters, wanted.settings, wanted.data, wanted.form)


async def _body(request: Request) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise QueryRefused(f"the body is larger than {MAX_BODY_BYTES} bytes", 307)
        chunks.append(chunk)
    return decompressed(b"".join(chunks), request.headers.get("content-encoding", ""))


def decompressed(body: bytes, encoding: str) -> bytes:
    """Undoes what clients do to inserts (a frame for each block of rows); the result is bounded like the body.

    All of it, or QueryRefused.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity") or not body:
        return body
    if encoding not in UNPACKERS:
        raise QueryRefused(f"Content-Encoding {encoding!r} is not supported: use gzip, lz4, zstd or none", 108)
    parts: list[bytes] = []
    left = MAX_BODY_BYTES
    try:
        while body:
            part, body = UNPACKERS[encoding](body, left + 1)
            parts.append(part)
            left -= len(part)
            if left < 0:
                raise QueryRefused(f"the decompressed body is larger than {MAX_BODY_BYTES} bytes", 307)
    except (OSError, EOFError, ValueError, RuntimeError, zlib.error, zstandard.ZstdError) as error:
        raise QueryRefused(f"the body is not valid {encoding}: {error}", 354) from error
    return b"".join(parts)


def _gzip_member(body: bytes, most: int) -> tuple[bytes, bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    return _whole(unpacker.decompress(body, most), most, unpacker.eof, unpacker.unused_data)


def _lz4_frame(body: bytes, most: int) -> tuple[bytes, bytes]:
    unpacker = lz4.frame.LZ4FrameDecompressor()
    return _whole(unpacker.decompress(body, most), most, unpacker.eof, unpacker.unused_data or b"")


def _zstd_frame(body: bytes, most: int) -> tuple[bytes, bytes]:
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    pieces: list[bytes] = []
    size = at = 0
    while at < len(body) and not unpacker.eof and size < most:  # in small steps, because it has no limit of its own
        pieces.append(unpacker.decompress(body[at : at + ZSTD_STEP_BYTES]))
        size, at = size + len(pieces[-1]), at + ZSTD_STEP_BYTES
    return _whole(b"".join(pieces), most, unpacker.eof, unpacker.unused_data + body[at:])


def _whole(part: bytes, most: int, ended: bool, rest: bytes) -> tuple[bytes, bytes]:
    """One frame's content and what lies behind it. A frame cut off is an error, unless it is too large anyway."""
    if not ended and len(part) < most:
        raise EOFError("it ends too early")
    return part, rest


UNPACKERS: Mapping[str, Callable[[bytes, int], tuple[bytes, bytes]]] = {"gzip": _gzip_member, "lz4": _lz4_frame, "zstd": _zstd_frame}


def _error(status: int, code: int, message: str) -> Response:
    text = message if message.startswith("Code: ") else f"Code: {code}. DB::Exception: {message}"
    return PlainTextResponse(text + "\n", status_code=status, headers={"X-ClickHouse-Exception-Code": str(code)})
