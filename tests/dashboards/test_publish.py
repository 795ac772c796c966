"""Publishing through grafana-client, against a small server that answers as Grafana's API does (no Grafana is on the registries)."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dashboards.publish import PublishError, publish
from dashboards.viewer import DASHBOARDS

TOKEN = "glsa_test"


class FakeGrafana(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        state: dict[str, Any] = self.server.state  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._send(401, {"message": "Unauthorized"})
        if self.path == "/api/datasources/uid/clickhouse":
            return self._send(200, {"uid": "clickhouse"}) if state["data_source"] else self._send(404, {"message": "Data source not found"})
        if self.path == "/api/folders/tokenpath":
            return self._send(200, {"uid": "tokenpath"}) if state["folder"] else self._send(404, {"message": "folder not found"})
        if self.path == "/api/folders":
            state["folder"] = body
            return self._send(200, body)
        if self.path == "/api/dashboards/db":
            if state["read_only"]:
                return self._send(403, {"message": "permission denied"})
            state["dashboards"][body["dashboard"]["uid"]] = body
            return self._send(200, {"url": f"/d/{body['dashboard']['uid']}", "status": "success"})
        return self._send(404, {"message": self.path})

    def _send(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@contextmanager
def grafana(**changes: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeGrafana)
    state = {"data_source": True, "folder": None, "read_only": False, "dashboards": {}} | changes
    server.state = state  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", state
    finally:
        server.shutdown()
        server.server_close()


def test_folder_and_dashboards_arrive_and_a_second_time_changes_nothing() -> None:
    with grafana() as (url, state):
        first = publish(url, TOKEN, DASHBOARDS)
        assert publish(url, TOKEN, DASHBOARDS) == first
    assert state["folder"]["uid"] == "tokenpath"
    assert set(state["dashboards"]) == {d.uid for d in DASHBOARDS.values()}
    sent = state["dashboards"]["tokenpath-cost"]
    assert sent["folderUid"] == "tokenpath"
    assert sent["overwrite"] is True
    assert "id" not in sent["dashboard"]


def test_a_dry_run_changes_nothing() -> None:
    with grafana() as (url, state):
        assert [p.uid for p in publish(url, TOKEN, DASHBOARDS, dry_run=True)] == [d.uid for d in DASHBOARDS.values()]
    assert (state["folder"], state["dashboards"]) == (None, {})


@pytest.mark.parametrize(
    ("changes", "token", "message"),
    [
        ({}, "wrong", "token is not valid"),
        ({"read_only": True}, TOKEN, "Editor role"),
        ({"data_source": False}, TOKEN, "no data source with uid 'clickhouse'"),
    ],
)
def test_what_is_wrong_is_said_with_its_remedy(changes: dict[str, Any], token: str, message: str) -> None:
    with grafana(**changes) as (url, _), pytest.raises(PublishError, match=message):
        publish(url, token, DASHBOARDS)


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(PublishError, match="cannot be reached"):
        publish("http://127.0.0.1:1", TOKEN, DASHBOARDS)
