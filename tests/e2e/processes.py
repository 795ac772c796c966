"""Other people's servers as processes of a test."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

START_SECONDS = 180.0
STOP_SECONDS = 60.0
FOREIGN = ("OTEL_", "OPENAI_", "LITELLM_", "DYN_", "TOKENPATH_")  # settings of the caller's shell that would change what is tested


def plain_environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}, **variables}


@contextmanager
def server(command: Sequence[str], directory: Path, log: Path, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Ended by SIGTERM, so that it sends the telemetry that it still holds."""
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=directory, env=plain_environment(variables), stdout=file, stderr=file)
    try:
        yield process
        process.terminate()
        process.wait(STOP_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def await_answer(url: str, process: subprocess.Popen[bytes], log: Path, containing: str = "") -> None:
    """Until `url` answers 200 with this text. Fails with the end of the server's log."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, f"ended with {process.returncode}:\n{log.read_text()[-3000:]}"
        assert time.monotonic() < deadline, f"did not start:\n{log.read_text()[-3000:]}"
        try:
            answer = httpx.get(url, timeout=5)
            if answer.status_code == 200 and containing in answer.text:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.3)
