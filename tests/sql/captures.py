"""Captured traces in the store, read with the packaged profiles and otherwise empty configuration."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.attribution.assembly import SPANS_PER_CHUNK, assemble
from pipeline.attribution.scope import Scope
from pipeline.configuration.versions import load_configuration, store_configuration
from pipeline.store.client import Store

CAPTURES = Path(__file__).parents[1] / "data" / "otlp"
SECOND = 1_000_000_000
WINDOW = 900 * SECOND
RECORDED_AT = datetime(2026, 11, 30, tzinfo=UTC)


def bodies(capture: str) -> list[bytes]:
    """The export requests of traces, in order of arrival."""
    return [path.read_bytes() for path in sorted((CAPTURES / capture).glob("*traces.binpb"))]


def configure(store: Store, directory: Path, files: Mapping[str, str] | None = None) -> str:
    """Stores the packaged profiles and `files` (name -> TOML) of a user's directory; returns the hash."""
    for name, text in (files or {}).items():
        (directory / name).write_text(text, encoding="utf-8")
    return store_configuration(store, load_configuration(directory), RECORDED_AT)


def scope_of_all(store: Store, config_hash: str) -> Scope:
    """Whole windows around every stored span."""
    first, last = store.query("SELECT min(toUnixTimestamp64Nano(started_at)), max(toUnixTimestamp64Nano(started_at)) FROM spans").rows[0]
    return Scope(7, config_hash, first // WINDOW * WINDOW, (last // WINDOW + 1) * WINDOW, WINDOW, SECOND, 300 * SECOND, 3600 * SECOND)


def assembled(store: Store, config_hash: str, spans_per_chunk: int = SPANS_PER_CHUNK) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(requests, attempts) in time order, after one run over everything."""
    assemble(store, scope_of_all(store, config_hash), spans_per_chunk)
    requests = store.query("SELECT * FROM work_requests ORDER BY started_at, request_id").dicts()
    attempts = store.query("SELECT * FROM work_attempts ORDER BY request_id, attempt_no").dicts()
    return requests, attempts


def only(rows: Sequence[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]
