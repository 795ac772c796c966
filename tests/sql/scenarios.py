"""Runs many small traces through one assembly and hands back what became of each; a run has a price, a trace has none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.attribution.assembly import SPANS_PER_CHUNK
from pipeline.store.client import Store
from tests.conftest import empty
from tests.sql.captures import assembled, configure
from tests.sql.spans import Row, stored


@dataclass(frozen=True)
class Outcome:
    """Requests in time order, attempts in the order of their requests and numbers."""

    requests: list[dict[str, Any]]
    attempts: list[dict[str, Any]]

    @property
    def request(self) -> dict[str, Any]:
        (only,) = self.requests
        return only

    @property
    def attempt(self) -> dict[str, Any]:
        (only,) = self.attempts
        return only

    def of_requests(self, *columns: str) -> list[Any]:
        return _picked(self.requests, columns)

    def of_attempts(self, *columns: str) -> list[Any]:
        return _picked(self.attempts, columns)


def _picked(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[Any]:
    return [row[columns[0]] if len(columns) == 1 else tuple(row[column] for column in columns) for row in rows]


class World:
    """What one assembly made of all traces, by trace name."""

    def __init__(self, requests: list[dict[str, Any]], attempts: list[dict[str, Any]]) -> None:
        self.requests, self.attempts = requests, attempts

    def __getitem__(self, trace: str) -> Outcome:
        requests = [row for row in self.requests if row["trace_id"].decode().rstrip(".") == trace]
        ids = [row["request_id"] for row in requests]
        attempts = [row for row in self.attempts if row["request_id"] in ids]
        return Outcome(requests, sorted(attempts, key=lambda row: (ids.index(row["request_id"]), row["attempt_no"])))


def assembled_world(
    engine: Store, rows: list[Row], directory: Path, files: Mapping[str, str] | None = None, spans_per_chunk: int = SPANS_PER_CHUNK
) -> World:
    empty(engine)
    config_hash = configure(engine, directory, files)
    stored(engine, rows)
    world = World(*assembled(engine, config_hash, spans_per_chunk))
    empty(engine)
    return world
