"""Starts `tokenpath` as a user does, in its own process with its own data directory and free ports."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.serving.instance import Endpoint, live_endpoint

START_SECONDS = 90
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**variables: str) -> dict[str, str]:
    """Ours, without settings of the caller's shell, plus `variables`."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TOKENPATH_")}
    return {**plain, "COLUMNS": "120", "PYTHONUNBUFFERED": "1", **variables}


def tokenpath(*arguments: str | Path, cwd: Path | None = None, timeout: float = 180, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs one command to its end."""
    command = [sys.executable, "-c", "from pipeline.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment(**variables), capture_output=True, text=True, timeout=timeout, check=False)


def output_of(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """stdout of a command that must succeed."""
    done = tokenpath(*arguments, cwd=cwd, **variables)
    assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def json_of(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> Any:
    return json.loads(output_of(*arguments, "--json", cwd=cwd, **variables))


@dataclass(frozen=True)
class Running:
    """A running `tokenpath up`."""

    process: subprocess.Popen[str]
    data: Path
    grpc: str
    http: str
    viewer: str
    endpoint: Endpoint

    def command(self, *arguments: str | Path) -> Any:
        """JSON of a command that works beside it."""
        return json_of(*arguments, "--data", self.data)

    def wait_until_loaded(self, spans: int, timeout_s: float = 60) -> None:
        """Until the log's end is committed and so many spans are stored."""
        deadline = time.monotonic() + timeout_s
        while True:
            status = self.command("status")
            if all(part["lag"] == 0 for part in status["log"]) and status["store"]["spans"] >= spans:
                return
            assert time.monotonic() < deadline, status
            time.sleep(0.2)


@contextmanager
def up(data: Path, *arguments: str, **variables: str) -> Iterator[Running]:
    """`tokenpath up` on free ports; stopped by SIGTERM, and it must end with exit 0."""
    ports = {name: f"127.0.0.1:{free_port()}" for name in ("RECEIVE_GRPC", "RECEIVE_HTTP", "SERVE_HTTP", "SERVE_CLICKHOUSE_HTTP")}
    settings = {f"TOKENPATH_{name}": address for name, address in ports.items()}
    command = [sys.executable, "-c", "from pipeline.cli import main; main()", "up", "--data", str(data), *arguments]
    log = data.parent / f"{data.name}-up.log"
    with log.open("w") as file:
        process = subprocess.Popen(command, env=environment(**{**settings, **variables}), stdout=file, stderr=file, text=True)
    try:
        deadline = time.monotonic() + START_SECONDS
        while (endpoint := live_endpoint(data)) is None:
            assert process.poll() is None, f"up ended with {process.returncode}:\n{log.read_text()}"
            assert time.monotonic() < deadline, f"up did not start:\n{log.read_text()}"
            time.sleep(0.05)
        yield Running(process, data, ports["RECEIVE_GRPC"], ports["RECEIVE_HTTP"], ports["SERVE_HTTP"], endpoint)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def without_colours(text: str) -> str:
    return ANSI.sub("", text)
