"""Handles on the embedded engine for the HTTP endpoint: one per request, with what its principal may see and do.

Embedded ClickHouse has no users (`CREATE USER` is refused), so a reader's handle carries table filters, limits and
`readonly = 1`, in that order: after that nothing on the handle can be changed. Opening one takes under a millisecond.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from pipeline.errors import TokenpathError
from pipeline.serving.query_guard import forged_name, output_format, parse_tree, refusal
from pipeline.store.client import DATABASE, INSERT_SETTINGS

READER_LIMITS = {
    "max_execution_time": 60,
    "max_memory_usage": 2_000_000_000,
    "max_result_rows": 1_000_000,  # the answer is held in memory; the embedded engine ignores max_result_bytes
    "result_overflow_mode": "throw",
}

INSERT_WITH_BODY = re.compile(
    r"\s*(?P<into>insert\b.*?)(?P<settings>\s+settings\s.*?)?\s+format\s+(?P<form>\w+)\s*;?\s*", re.IGNORECASE | re.DOTALL
)

END_SECONDS, END_STEP_SECONDS = 10.0, 0.05

logger = logging.getLogger(__name__)

# What a tenant may see: its own rows of these tables, and no row of any other (a materialized view is another name of its target).
TENANT_FILTERS = {
    "requests": "tenant = {tenant}",
    "attempts": "tenant = {tenant}",
    "ledger": "tenant = {tenant}",
    "blames": "tenant = {tenant}",
    "leak_windows": "tenant = {tenant}",
    "tenant_windows": "tenant = {tenant}",
    "latency_windows": "tenant = {tenant}",
    "rated_windows": "tenant = {tenant}",
    "tenants": "tenant = {tenant}",
    "token_prices": "tenant IN ({tenant}, '')",
    "slos": "tenant IN ({tenant}, '')",
    "spans": "principal = {principal}",
    "rejected_spans": "principal = {principal}",
    "left_out": "principal = {principal}",
    "samples": "principal = {principal}",
    "runs": "1",  # for current_runs; by its own name it is closed
    "current_runs": "1",
}
CLOSED_TO_TENANTS = frozenset({"runs"})


class QueryRefused(TokenpathError):
    """The statement may not run for this principal. `code` is ClickHouse's error number."""

    def __init__(self, message: str, code: int = 497) -> None:
        super().__init__(message)
        self.code = code


class EmbeddedEngine:
    """Reads for anyone known, writes for an admin, on the engine that this process holds."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, principal: str, sql: str, parameters: Mapping[str, str], default_format: str) -> tuple[bytes, str]:
        """Checks and runs one SELECT. Returns its bytes and their format. Raises QueryRefused, or the engine's RuntimeError."""
        connection = self._reader(principal)
        try:
            single = _text(connection, "SELECT formatQuerySingleLine({q:String})", {"q": escape_parameter(sql)})
            nodes = parse_tree(_text(connection, f"EXPLAIN AST {single}", parameters))
            closed = frozenset() if principal == "platform" else CLOSED_TO_TENANTS
            reason = forged_name(single, parameters) or refusal(
                nodes, DATABASE, self._names["table_functions"], self._names["functions"], closed
            )
            if reason:
                raise QueryRefused(
                    f"refused: {reason}. Readers may SELECT from the tables of {DATABASE}; see the README, 'Reading the store'"
                )
            form = output_format(nodes) or default_format
            return connection.query(single, form, params=dict(parameters)).bytes(), form
        finally:
            connection.close()

    def write(
        self, sql: str, parameters: Mapping[str, str], settings: Mapping[str, str], data: bytes, default_format: str
    ) -> tuple[bytes, str]:
        """One statement of an admin. With `data`, `sql` is an INSERT that ends in its FORMAT."""
        connection = self._open()
        try:
            for name, value in settings.items():
                if not name.isidentifier():
                    raise QueryRefused(f"setting {name!r} is not a name", 115)
                connection.query(f"SET {name} = '{escape_text(value)}'")
            if data:
                return self._insert(connection, sql, data), default_format
            return connection.query(sql, default_format, params=dict(parameters)).bytes(), default_format
        finally:
            connection.close()

    @staticmethod
    def _insert(connection: Any, sql: str, data: bytes) -> bytes:
        parts = INSERT_WITH_BODY.fullmatch(sql)
        if not parts:
            raise QueryRefused("an INSERT with a body must end in FORMAT <name>", 62)
        descriptor = os.memfd_create("tokenpath-insert")
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(data)
            source = f"FROM INFILE '/proc/self/fd/{descriptor}'{parts['settings'] or ''}"
            result = connection.query(f"{parts['into']} {source} FORMAT {parts['form']}", "TabSeparated")
            return bytes(result.bytes())
        finally:
            os.close(descriptor)

    def _open(self) -> Any:
        connection = _connect(self._path)
        connection.query(f"USE {DATABASE}")
        for name, value in INSERT_SETTINGS.items():
            connection.query(f"SET {name} = '{value}'")
        return connection

    def _reader(self, principal: str) -> Any:
        connection = _connect(self._path)
        connection.query(f"USE {DATABASE}")
        connection.query(f"SET additional_table_filters = {self._filters(principal)}")
        for name, value in READER_LIMITS.items():
            connection.query(f"SET {name} = '{value}'")
        connection.query("SET readonly = 1")
        return connection

    def _filters(self, principal: str) -> str:
        filters = {
            f"system.{name}": f"{'name' if name == 'databases' else 'database'} = '{DATABASE}'"
            for name in ("databases", "tables", "columns")
        }
        if principal != "platform":
            literals = {"principal": f"'{escape_text(principal)}'", "tenant": f"'{escape_text(principal.removeprefix('tenant/'))}'"}
            for table in self._tables():
                filters[f"{DATABASE}.{table}"] = TENANT_FILTERS.get(table, "0").format(**literals)
            filters["system.tables"] = "0"
        return "{" + ", ".join(f"'{name}': '{escape_text(condition)}'" for name, condition in filters.items()) + "}"

    def _tables(self) -> frozenset[str]:
        """All that exists in our database now: what was made since the start must not be without a filter."""
        connection = _connect(self._path)
        try:
            return _names(connection, f"SHOW TABLES FROM {DATABASE}")
        finally:
            connection.close()

    @cached_property
    def _names(self) -> dict[str, frozenset[str]]:
        connection = _connect(self._path)
        try:
            return {
                "table_functions": _names(connection, "SELECT name FROM system.table_functions"),
                "functions": _names(connection, "SELECT name FROM system.functions"),
            }
        finally:
            connection.close()


def end_queries(path: str, sleeper: Callable[[float], object] = time.sleep) -> None:
    """Cancels what still runs on the engine of this process and waits, within END_SECONDS, until nothing does: to close it before
    would crash the process."""
    connection = _connect(path)
    try:
        for _ in range(int(END_SECONDS / END_STEP_SECONDS)):
            if _text(connection, "SELECT count() FROM system.processes WHERE query_id != queryID()", {}) == "0":
                return
            connection.query("KILL QUERY WHERE query_id != queryID() ASYNC")
            sleeper(END_STEP_SECONDS)
        logger.error("queries did not end within %.0f s", END_SECONDS)
    finally:
        connection.close()


def _connect(path: str) -> Any:
    import chdb  # of the extra `embedded`; with a server as its store `tokenpath up` runs without it

    connect: Any = chdb.connect  # untyped
    return connect(path)


def escape_text(value: str) -> str:
    """For a single-quoted ClickHouse literal."""
    return value.replace("\\", "\\\\").replace("'", "\\'")


def escape_parameter(value: str) -> str:
    """Server-side parameters arrive in the escaped form of TabSeparated."""
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _text(connection: Any, sql: str, parameters: Mapping[str, str]) -> str:
    raw: bytes = connection.query(sql, "TSVRaw", params=dict(parameters)).bytes()
    return raw.decode("utf-8", "replace").rstrip("\n")


def _names(connection: Any, sql: str) -> frozenset[str]:
    return frozenset(_text(connection, sql, {}).split("\n"))
