"""Scrapes Prometheus endpoints and appends each page to the log as OTLP metrics, so that metrics have one way in.

A target that does not answer, or not with a page, is reported as Prometheus does (`up` is 0, its gauges end) and scraped again at its
next time; it holds up no other target and ends nothing. Redirects are not followed: they would take a token elsewhere.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from collectors.exposition import Format, NotAnExposition, Page, Series, ended, gauge, read, requests
from schemas.counters import Counters
from schemas.log import METRICS_TOPIC, AppendLog, LogFull, LogUnavailable, RecordTooLarge
from schemas.settings import ScrapeSettings

# prometheus_client writes `_` for `:` into OpenMetrics names unless it is told not to, whatever the q values say.
ACCEPT = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
STOP_POLL_SECONDS = 0.2

COUNTERS = {"tokenpath_scrapes_total": "Scrapes by job and result (ok, down, or lost because the log took nothing)"}

logger = logging.getLogger(__name__)

Clock = Callable[[], int]  # unix ns


class TargetDown(Exception):
    """Why there is no page. One line for the operator."""


@dataclass(slots=True)
class Target:
    """One [[scrape]], and what its last page had. `up` is None before the first scrape."""

    settings: ScrapeSettings
    gauges: frozenset[Series] = frozenset()
    up: bool | None = None
    resource: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.resource = {"service.name": self.settings.job, "service.instance.id": self.settings.instance, **self.settings.labels}


async def fetch(client: httpx.AsyncClient, settings: ScrapeSettings) -> tuple[bytes, Format]:
    """The page's bytes and its format. Raises TargetDown, after its deadline at the latest and without keeping more than
    max_body_bytes."""
    headers = {"accept": ACCEPT, "accept-encoding": "identity", "x-prometheus-scrape-timeout-seconds": f"{settings.deadline_seconds:g}"}
    if settings.bearer_token_file:
        headers["authorization"] = f"Bearer {_token(settings.bearer_token_file)}"
    try:
        async with asyncio.timeout(settings.deadline_seconds), client.stream("GET", settings.url, headers=headers) as response:
            return await _page(response, settings)
    except TimeoutError as error:
        raise TargetDown(f"no answer within {settings.deadline_seconds:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise TargetDown(f"{type(error).__name__}: {error}") from error


def _token(name: str) -> str:
    """Read at each scrape, because such files are rotated."""
    try:
        return Path(name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeError) as error:
        raise TargetDown(f"bearer_token_file {name!r}: {getattr(error, 'strerror', None) or 'is not text'}") from error


async def _page(response: httpx.Response, settings: ScrapeSettings) -> tuple[bytes, Format]:
    if response.is_redirect:
        raise TargetDown(f"redirects to {response.headers.get('location', '')[:200]!r}: put that into [[scrape]] url if it is right")
    if response.status_code != 200:
        raise TargetDown(f"answers {response.status_code}")
    if (encoding := response.headers.get("content-encoding", "identity")) != "identity":
        raise TargetDown(f"answers in {encoding[:40]!r}, which was not asked for")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > settings.max_body_bytes:
            raise TargetDown(f"the page has more than {settings.max_body_bytes} bytes ([[scrape]] max_body_bytes)")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return bytes(body), "openmetrics" if kind == "application/openmetrics-text" else "text"


class Scraper:
    """Scrapes all targets until stopped. Holds one page per target at most."""

    def __init__(self, targets: Sequence[ScrapeSettings], log: AppendLog, clock: Clock, counters: Counters, bytes_max: int) -> None:
        """`bytes_max`: largest message that the log takes."""
        self.targets = [Target(settings) for settings in targets]
        self._log, self._clock, self._counters, self._bytes_max = log, clock, counters, bytes_max

    def run(self, stop: threading.Event) -> None:
        asyncio.run(self._until(stop))

    async def _until(self, stop: threading.Event) -> None:
        async with client() as http:
            tasks = [asyncio.create_task(self._repeat(target, http, number)) for number, target in enumerate(self.targets)]
            while not stop.is_set() and not any(task.done() for task in tasks):
                await asyncio.sleep(STOP_POLL_SECONDS)
            for task in tasks:
                if not task.done():
                    task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):  # a bug: a target cannot raise
                    raise outcome

    async def _repeat(self, target: Target, http: httpx.AsyncClient, number: int) -> None:
        """At even distances, the targets spread over the interval; a scrape that took too long leaves the next one out."""
        every = target.settings.interval_seconds
        due = time.monotonic() + every * number / len(self.targets)
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self.scrape(target, http)
            due += every * max(1, -(-(time.monotonic() - due) // every))

    async def scrape(self, target: Target, http: httpx.AsyncClient) -> None:
        """One scrape, into the log. Raises nothing that a target, its page or the log can cause."""
        settings, at_ns, began = target.settings, self._clock(), time.monotonic()
        page, reason = Page((), 0, frozenset()), ""
        try:
            body, form = await fetch(http, settings)
            text = body.decode("utf-8", "replace")
            page = await asyncio.to_thread(read, text, form, at_ns, settings.max_samples)
        except (TargetDown, NotAnExposition) as error:
            reason = str(error)
        self._tell(target, reason)
        metrics = [
            *page.metrics,
            *ended(target.gauges - page.gauges, at_ns),
            gauge("up", 0.0 if reason else 1.0, at_ns),
            gauge("scrape_duration_seconds", time.monotonic() - began, at_ns, "s"),
            gauge("scrape_samples_scraped", float(page.samples), at_ns),
        ]
        try:
            await asyncio.to_thread(self._append, target, metrics, at_ns)
        except (LogFull, LogUnavailable, RecordTooLarge) as error:
            logger.warning("scrape of %s %s is lost: %s", settings.job, settings.url, error)
            self._counters.add("tokenpath_scrapes_total", job=settings.job, result="lost")
            return
        target.gauges = page.gauges
        self._counters.add("tokenpath_scrapes_total", job=settings.job, result="down" if reason else "ok")

    def _append(self, target: Target, metrics: Sequence[Metric], at_ns: int) -> None:
        headers = {"principal": "platform", "ingest_key": "", "received_ns": str(at_ns), "content": "otlp_proto"}
        for request in requests(target.resource, metrics, self._bytes_max):
            self._log.append(METRICS_TOPIC, headers, request.SerializeToString())

    def _tell(self, target: Target, reason: str) -> None:
        """Once when it goes down, once when it comes back."""
        if reason and target.up is not False:
            logger.warning("%s at %s is down: %s", target.settings.job, target.settings.url, reason)
        if not reason and target.up is False:
            logger.warning("%s at %s is up again", target.settings.job, target.settings.url)
        target.up = not reason


def client() -> httpx.AsyncClient:
    """No proxies or credentials from the environment, no redirects, one connection per target."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
    return httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=None, limits=limits)
