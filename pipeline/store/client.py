"""The store: one thin client over both engines. `chdb:<path>` is real ClickHouse in this process, `http(s)://…` a server.

A `Store` is one handle and is used by one thread at a time; `another()` opens a second handle on the same engine.
The embedded engine takes one data directory per process, and that directory takes one process.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import ConfigurationError, StoreDown
from pipeline.store.errors import store_errors
from schemas.settings import StoreSettings

DATABASE = "tokenpath"

# Stated on every insert, because the defaults lose or slow (reference: docs/decisions.md, "insert settings").
INSERT_SETTINGS: Mapping[str, int | str] = {
    "async_insert": 0,
    "optimize_on_insert": 0,
    "distributed_foreground_insert": 1,
    "insert_quorum": "auto",
    "materialized_views_ignore_errors": 0,
}


@dataclass(frozen=True, slots=True)
class Table:
    """A result: column names, their ClickHouse types, rows as tuples."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def scalar(self) -> Any:
        return self.rows[0][0]


class Store:
    """One handle. Errors of the connection are StoreDown; errors of a statement stay ClickHouse's own."""

    def __init__(self, settings: StoreSettings, client: Client, embedded: bool) -> None:
        self._settings, self._client, self.embedded = settings, client, embedded

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None) -> Table:
        with store_errors(self.where):
            result = self._client.query(sql, parameters=dict(parameters or {}), settings=dict(settings or {}))
        return Table(
            tuple(result.column_names),
            tuple(t.name for t in result.column_types),
            tuple(tuple(row) for row in result.result_rows),
        )

    def command(self, sql: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None) -> None:
        with store_errors(self.where):
            self._client.command(sql, parameters=dict(parameters or {}), settings=dict(settings or {}))

    def insert(self, table: str, data: bytes | Sequence[bytes], form: str, settings: Mapping[str, int | str] | None = None) -> None:
        """One INSERT of `data`, whole or in pieces, in a ClickHouse input format. Returns once the rows are stored (and on disk:
        the tables fsync)."""
        everything = {**INSERT_SETTINGS, **(settings or {})}
        pieces = (data,) if isinstance(data, bytes) else data
        with store_errors(self.where):
            if self.embedded:
                self._insert_embedded(table, pieces, form, everything)
            else:
                self._client.raw_insert(table, insert_block=b"".join(pieces), fmt=form, settings=everything)

    def _insert_embedded(self, table: str, pieces: Sequence[bytes], form: str, settings: Mapping[str, int | str]) -> None:
        # clickhouse-connect would write a temp file that a kill leaves behind; a memory file vanishes with the process.
        descriptor = os.memfd_create("tokenpath-insert")
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.writelines(pieces)
            clause = ", ".join(f"{name} = {_literal(value)}" for name, value in settings.items())
            self._client.command(f"INSERT INTO {table} FROM INFILE '/proc/self/fd/{descriptor}' SETTINGS {clause} FORMAT {form}")
        finally:
            os.close(descriptor)

    def insert_rows(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """A few rows (configuration, runs) as JSON; big integers and decimals are written as text and stay exact."""
        lines = [json.dumps(row, default=str, separators=(",", ":")) for row in rows]
        if lines:
            self.insert(table, "\n".join(lines).encode(), "JSONEachRow")

    @property
    def where(self) -> str:
        """The store's name in messages."""
        return f"store {self._settings.url}"

    @property
    def path(self) -> str:
        """Data directory of the embedded engine."""
        return self._settings.url.removeprefix("chdb:")

    def another(self) -> "Store":
        """A second handle on the same engine, for another thread."""
        return _open_server(self._settings) if not self.embedded else _open_embedded(self._settings, Path(self.path))

    def close(self) -> None:
        self._client.close()


def _literal(value: int | str) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def open_store(settings: StoreSettings) -> Store:
    """Opens the engine and makes sure that the database exists. Raises ConfigurationError or StoreDown."""
    if settings.url.startswith("chdb:"):
        path = Path(settings.url.removeprefix("chdb:"))
        # The engine's copies of schemas: a kill or a full disk may have left half of one.
        shutil.rmtree(path / "__cache__", ignore_errors=True)
        return _open_embedded(settings, path)
    if re.match(r"https?://", settings.url):
        return _open_server(settings)
    raise ConfigurationError(f"[store] url = {settings.url!r}: expected chdb:<directory> or http(s)://user@host:8123/database")


def _open_embedded(settings: StoreSettings, path: Path) -> Store:
    path = path.absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        # The engine writes its schema cache into the working directory, wherever that is: give it its own.
        os.chdir(path)
        client = clickhouse_connect.get_client(interface="chdb", path=str(path), tz_mode="aware")
        client.command(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        client.command(f"USE {DATABASE}")
    except (OSError, ClickHouseError, RuntimeError) as error:
        raise StoreDown(f"embedded store at {path}: {error}") from error
    return Store(StoreSettings(url=f"chdb:{path}"), client, embedded=True)


def _open_server(settings: StoreSettings) -> Store:
    url = urlsplit(settings.url)
    database = url.path.strip("/") or DATABASE
    try:
        client = clickhouse_connect.get_client(
            interface=cast(Any, url.scheme),
            host=url.hostname or "localhost",
            port=url.port or (8443 if url.scheme == "https" else 8123),
            username=url.username or "default",
            password=settings.password.get_secret_value(),
            database=database,
            connect_timeout=10,
            send_receive_timeout=300,
            autogenerate_session_id=False,
            tz_mode="aware",
        )
    except (OSError, ClickHouseError) as error:
        raise StoreDown(f"ClickHouse at {url.scheme}://{url.hostname}:{url.port}: {error}") from error
    return Store(settings, client, embedded=False)
