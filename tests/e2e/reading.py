"""What a running Tokenpath has made of the telemetry: its current runs, request by request."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import clickhouse_connect

from tests.processes import Running

CURRENT = "SELECT t.* FROM {table} AS t JOIN current_runs AS c USING (window_from, run_id) ORDER BY t.started_at, t.request_id"
WAIT_SECONDS = 90.0


def query(running: Running, sql: str) -> list[dict[str, Any]]:
    """Through ClickHouse's HTTP interface, with the token of endpoint.json, by the real client."""
    host, _, port = running.endpoint.clickhouse_http.rpartition(":")
    token = running.endpoint.token.get_secret_value()
    client = clickhouse_connect.get_client(host=host, port=int(port), username="admin", password=token, database="tokenpath")
    try:
        return list(client.query(sql).named_results())
    finally:
        client.close()


def attributed(running: Running, *options: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(requests, attempts) in order of their start, after one run over the last twelve minutes."""
    running.command("attribute", *bounds(), "--provisional", "--wait", *options)
    requests = query(running, CURRENT.format(table="requests"))
    return requests, query(running, CURRENT.format(table="attempts"))


def bounds() -> tuple[str, str, str, str]:
    now = datetime.now(UTC)
    return ("--from", (now - timedelta(minutes=12)).isoformat(), "--to", (now + timedelta(minutes=1)).isoformat())


def eventually(found: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Real software exports when it pleases: waits until `found`."""
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.3)


def count(running: Running, condition: str) -> int:
    """Stored spans."""
    return int(query(running, f"SELECT count() AS n FROM spans FINAL WHERE {condition}")[0]["n"])
