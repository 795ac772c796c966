"""HTTP beside the viewer: liveness, readiness, Prometheus text, and attribution on request (CONTRACTS 6)."""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pipeline.attribution.windows import check_bounds
from pipeline.errors import ConfigurationError, TokenpathError
from pipeline.serving.endpoint import presented_key
from schemas.settings import Permission, is_loopback

logger = logging.getLogger(__name__)

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ATTRIBUTE_WAITING_MAX = 8  # each holds a thread
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})


class AttributeRequest(BaseModel):
    """Body of POST /admin/attribute. Without `wait` the answer comes before the runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    from_at: AwareDatetime
    to_at: AwareDatetime
    provisional: bool = False
    wait: bool = False


Attribute = Callable[[datetime, datetime, bool], list[Mapping[str, Any]]]


def api_app(
    ready: Callable[[], Mapping[str, bool]],
    metrics: Callable[[], str],
    attribute: Attribute,
    may: Callable[[str | None, Permission], bool],
    pages: list[BaseRoute],
    pages_need_key: bool,
) -> Starlette:
    """`ready` names each part and whether it works; `may(key, "read" | "admin")` decides on keys; `pages` are the viewer's routes."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        parts = await run_in_threadpool(ready)
        return JSONResponse(dict(parts), status_code=200 if all(parts.values()) else 503)

    async def prometheus(_: Request) -> Response:
        return PlainTextResponse(await run_in_threadpool(metrics), media_type=METRICS_TYPE)

    waiting = threading.BoundedSemaphore(ATTRIBUTE_WAITING_MAX)

    def attribute_in_turn(wanted: AttributeRequest) -> list[Mapping[str, Any]]:
        try:
            return attribute(wanted.from_at, wanted.to_at, wanted.provisional)
        finally:
            waiting.release()

    def attribute_later(wanted: AttributeRequest) -> None:
        try:
            attribute_in_turn(wanted)
        except TokenpathError as error:
            logger.error("attribution on request: %s", error)

    async def run_attribution(request: Request) -> Response:
        if not may(presented_key(request.headers), "admin"):
            return JSONResponse({"error": "this needs a key that may admin"}, status_code=403)
        try:
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return JSONResponse({"error": "send it as application/json"}, status_code=415)  # which no page of another site can
            wanted = AttributeRequest.model_validate_json(await request.body())
            check_bounds(*(int(at.timestamp()) * 10**9 for at in (wanted.from_at, wanted.to_at)))
        except (ValidationError, ConfigurationError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        if not waiting.acquire(blocking=False):
            message = f"{ATTRIBUTE_WAITING_MAX} requests wait for attribution already; try again when they are done"
            return JSONResponse({"error": message}, status_code=429, headers={"Retry-After": "60"})
        if not wanted.wait:
            return JSONResponse({"accepted": True}, status_code=202, background=BackgroundTask(attribute_later, wanted))
        try:
            return JSONResponse({"runs": list(await run_in_threadpool(attribute_in_turn, wanted))})
        except TokenpathError as error:
            return JSONResponse({"error": str(error)}, status_code=500)

    own = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", prometheus),
        Route("/admin/attribute", run_attribution, methods=["POST"]),
    ]
    guard = Middleware(KeyGuard, may=may) if pages_need_key else Middleware(HostGuard)
    return Starlette(routes=[*own, *pages], middleware=[guard])


class HostGuard:
    """On loopback, where pages ask for no key, only requests to a loopback name are answered: a web site could point its own name here
    and have a visitor's browser read everything (DNS rebinding)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_local_name(Request(scope).headers.get("host", "")):
            await self._app(scope, receive, send)
            return
        answer = PlainTextResponse("this page is for this machine: use localhost or 127.0.0.1 as its name\n", status_code=421)
        await answer(scope, receive, send)


def _is_local_name(host: str) -> bool:
    try:
        return is_loopback(host if re.search(r":\d+$", host) else f"{host}:80")
    except ValueError:
        return False


class KeyGuard:
    """Off loopback, pages ask for a key: browsers send it as the password of HTTP Basic."""

    def __init__(self, app: ASGIApp, may: Callable[[str | None, Permission], bool]) -> None:
        self._app, self._may = app, may

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._may(presented_key(Request(scope).headers), "read"):
            await self._app(scope, receive, send)
            return
        answer = PlainTextResponse(
            "a key that may read is needed\n", status_code=401, headers={"WWW-Authenticate": 'Basic realm="tokenpath"'}
        )
        await answer(scope, receive, send)
