"""A target to scrape on a real socket, and one scrape of it into a log in memory."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from collectors.scrape import COUNTERS, Scraper, Target, client
from schemas.counters import Counters
from schemas.settings import ScrapeSettings
from tests.memory_log import MemoryLog


@dataclass
class Exporter:
    """ASGI application that answers with whatever page it holds at the moment."""

    page: str | bytes = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/plain; version=0.0.4"})
    asked: list[dict[str, str]] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        self.asked.append({key.decode(): value.decode() for key, value in scope["headers"]})
        headers = [(key.encode(), value.encode()) for key, value in self.headers.items()]
        body = self.page.encode() if isinstance(self.page, str) else self.page
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def scraper(log: MemoryLog, clock: Callable[[], int], *targets: ScrapeSettings, bytes_max: int = 4_194_304) -> Scraper:
    return Scraper(targets, log, clock, Counters(COUNTERS), bytes_max)


def scrape(one: Scraper, *targets: Target) -> None:
    """Each target once, one after the other."""

    async def run() -> None:
        async with client() as http:
            for target in targets or one.targets:
                await one.scrape(target, http)

    asyncio.run(run())


def values(log: MemoryLog) -> list[dict[str, Any]]:
    """Per logged record: metric name -> the values of its data points, in order."""
    found = []
    for record in log.records:
        request = ExportMetricsServiceRequest.FromString(record.value)
        (scope,) = request.resource_metrics[0].scope_metrics
        told: dict[str, Any] = {}
        for metric in scope.metrics:
            points = getattr(metric, metric.WhichOneof("data")).data_points
            told.setdefault(metric.name, []).extend(
                None if point.flags else point.as_double if hasattr(point, "as_double") else (point.count, point.sum) for point in points
            )
        found.append(told)
    return found
