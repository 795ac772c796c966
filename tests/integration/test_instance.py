"""One process holds a data directory's store; others find it through endpoint.json."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from pipeline.errors import ConfigurationError
from pipeline.serving.instance import ENDPOINT_FILE, Endpoint, announced, holding, live_endpoint
from tests.http_server import serving

HOLD = """
import sys, pathlib
from pipeline.serving.instance import holding
with holding(pathlib.Path(sys.argv[1])):
    print('held', flush=True)
    input()
"""


def ping_app() -> Starlette:
    return Starlette(routes=[Route("/ping", lambda _: PlainTextResponse("Ok.\n"))])


def endpoint(port: int, pid: int) -> Endpoint:
    return Endpoint.model_validate({"pid": pid, "clickhouse_http": f"127.0.0.1:{port}", "http": "127.0.0.1:1", "token": "secret"})


def test_the_lock_is_exclusive_between_processes_and_freed_by_death(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert holder.stdout and holder.stdout.readline() == b"held\n"
    with pytest.raises(ConfigurationError, match="another process holds the store"), holding(tmp_path):
        pass
    holder.kill()
    holder.wait()
    with holding(tmp_path):
        assert (tmp_path / "lock").exists()


def test_a_live_endpoint_is_found_and_its_file_is_private(tmp_path: Path) -> None:
    with serving(ping_app()) as port, announced(tmp_path, endpoint(port, os.getpid())):
        assert (tmp_path / ENDPOINT_FILE).stat().st_mode & 0o777 == 0o600
        found = live_endpoint(tmp_path)
        assert found and found.token.get_secret_value() == "secret"
        assert "secret" not in repr(found)
    assert live_endpoint(tmp_path) is None
    assert not (tmp_path / ENDPOINT_FILE).exists()


def test_a_file_that_outlived_its_process_is_no_endpoint(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with serving(ping_app()) as port:
        (tmp_path / ENDPOINT_FILE).write_text(endpoint(port, ended.pid).model_dump_json())
        assert live_endpoint(tmp_path) is None


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"", b'{"pid": 0}', b"[" * 100_000])
def test_a_damaged_file_is_no_endpoint(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ENDPOINT_FILE).write_bytes(content)
    assert live_endpoint(tmp_path) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": 0},
        {"pid": -1},
        {"pid": 10**30},
        {"clickhouse_http": "nonsense"},
        {"clickhouse_http": "[::"},
        {"clickhouse_http": "a b:1/x\ny"},
    ],
)
def test_a_file_with_impossible_content_is_no_endpoint(tmp_path: Path, changed: dict[str, object]) -> None:
    content = {"pid": os.getpid(), "clickhouse_http": "127.0.0.1:1", "http": "127.0.0.1:1", "token": "secret", **changed}
    (tmp_path / ENDPOINT_FILE).write_text(json.dumps(content))
    assert live_endpoint(tmp_path) is None


def test_another_program_on_the_port_is_no_endpoint(tmp_path: Path) -> None:
    def answer(listener: socket.socket) -> None:
        listener.settimeout(30)
        caller, _ = listener.accept()
        with caller:
            caller.recv(4096)
            caller.sendall(b"220 no web server\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = threading.Thread(target=answer, args=(listener,))
        other.start()
        (tmp_path / ENDPOINT_FILE).write_text(
            json.dumps(
                {"pid": os.getpid(), "clickhouse_http": f"127.0.0.1:{listener.getsockname()[1]}", "http": "127.0.0.1:1", "token": "secret"}
            )
        )
        assert live_endpoint(tmp_path) is None
        other.join()
