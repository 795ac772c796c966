"""Threads that live and die together."""

import threading

import pytest

from pipeline.serving.workers import Worker, run_together


def test_workers_are_stopped_in_the_order_of_the_data() -> None:
    order: list[str] = []

    def worker(name: str) -> Worker:
        def run(stop: threading.Event) -> None:
            stop.wait()
            order.append(name)

        return Worker(name, run)

    stop = threading.Event()
    run_together([worker("receivers"), worker("loader"), worker("store")], stop, started=stop.set)
    assert order == ["receivers", "loader", "store"]


def test_one_that_fails_stops_all_and_its_error_is_raised() -> None:
    stopped = threading.Event()

    def healthy(stop: threading.Event) -> None:
        stop.wait()
        stopped.set()

    def failing(_: threading.Event) -> None:
        raise ValueError("the disk is gone")

    with pytest.raises(ValueError, match="the disk is gone"):
        run_together([Worker("healthy", healthy), Worker("failing", failing)], threading.Event(), started=lambda: None)
    assert stopped.is_set()
