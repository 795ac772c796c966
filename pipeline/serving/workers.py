"""Threads of one process that live and die together: one that fails stops all, and its error is the process's error."""

import logging
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from pipeline.errors import ConfigurationError
from schemas.settings import split_address

SHUTDOWN_SECONDS = 5  # for requests that are being answered; those that wait for more do not get it

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Worker:
    """`run` returns when its event is set, after finishing what it holds."""

    name: str
    run: Callable[[threading.Event], None]
    stop: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None
    thread: threading.Thread | None = None

    def start(self, ended: threading.Event) -> None:
        def body() -> None:
            try:
                self.run(self.stop)
            except BaseException as error:  # handed to the main thread, which raises it
                self.error = error
            finally:
                ended.set()

        self.thread = threading.Thread(target=body, name=self.name, daemon=True)
        self.thread.start()


def run_together(workers: Sequence[Worker], stop: threading.Event, started: Callable[[], None], grace_s: float = 30.0) -> None:
    """Starts all, calls `started`, waits until `stop` is set or one ends, then stops them in the order given, each within `grace_s`.

    The order is the way of the data, so that what was accepted still flows to its end. Raises the first error of a worker.
    """
    ended = threading.Event()
    running: list[Worker] = []
    try:
        for worker in workers:
            worker.start(ended)
            running.append(worker)
        started()
        while not stop.is_set() and not ended.wait(0.2):
            pass
    finally:
        for worker in running:
            worker.stop.set()
            assert worker.thread
            worker.thread.join(grace_s)
            if worker.thread.is_alive():
                logger.error("%s did not stop within %.0f s", worker.name, grace_s)
    for worker in workers:
        if worker.error:
            raise worker.error


def http_worker(name: str, app: Any, setting: str, address: str) -> Worker:
    """Serves an ASGI application on `host:port`, which listens already; requests are answered once the worker runs.

    Raises ConfigurationError when the address cannot be used; uvicorn itself would end its thread in silence.
    """
    host, port = split_address(address)
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512)
    except OSError as error:
        raise ConfigurationError(
            f"[serve] {setting} = {address!r}: {error.strerror}; stop what listens there, or set another one"
        ) from error
    config = uvicorn.Config(
        app, log_config=None, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=SHUTDOWN_SECONDS
    )
    server = uvicorn.Server(config)

    def run(stop: threading.Event) -> None:
        thread = threading.Thread(target=server.run, args=([listener],), name=f"{name}-server", daemon=True)
        thread.start()
        while not stop.wait(0.2) and thread.is_alive():
            pass
        server.should_exit = True
        thread.join(10)

    return Worker(name, run)
