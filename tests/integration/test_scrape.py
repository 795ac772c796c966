"""The scraper against real sockets: what a page becomes, and targets that hang, never end, lie or are gone."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, make_asgi_app

from schemas.log import METRICS_TOPIC, LogFull
from schemas.settings import ScrapeSettings
from tests.http_server import serving
from tests.memory_log import MemoryLog
from tests.scraping import Exporter, scrape, scraper, values

NOW = 1_796_083_200_000_000_000


def target(port: int, **more: Any) -> ScrapeSettings:
    return ScrapeSettings(job="engine", url=f"http://127.0.0.1:{port}/metrics", **more)


def up(log: MemoryLog) -> list[float]:
    return [value for told in values(log) for value in told.get("up", ())]


@contextmanager
def answering(behaviour: Any) -> Iterator[int]:
    """A server on a plain socket: `behaviour` gets each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65536)
                behaviour(connection)
            except OSError:
                pass

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


@pytest.mark.parametrize("old", [False, True])
def test_a_real_client_library_is_read_in_the_format_that_it_chooses(old: bool) -> None:
    registry = CollectorRegistry()
    Counter("vllm:prompt_tokens", "t", ["model_name"], registry=registry).labels("m").inc(5)
    Gauge("vllm:num_requests_running", "t", registry=registry).set(2)
    Histogram("vllm:iteration_tokens_total", "a histogram whose name ends in _total", registry=registry, buckets=[1, 8]).observe(3)
    Summary("overhead_seconds", "t", registry=registry).observe(0.5)
    app = make_asgi_app(registry)

    async def plain(scope: Any, receive: Any, send: Any) -> None:
        headers = [pair for pair in scope["headers"] if pair[0] != b"accept"] if old else scope["headers"]
        await app({**scope, "headers": headers}, receive, send)

    log = MemoryLog()
    with serving(plain) as port:
        scrape(scraper(log, time.time_ns, target(port, labels={"k8s.pod.name": "p-0"})))
    (record,) = log.records
    assert (record.topic, record.headers["principal"], record.headers["content"]) == (METRICS_TOPIC, "platform", "otlp_proto")
    block = ExportMetricsServiceRequest.FromString(record.value).resource_metrics[0]
    assert {pair.key: pair.value.string_value for pair in block.resource.attributes} == {
        "service.name": "engine", "service.instance.id": f"127.0.0.1:{port}", "k8s.pod.name": "p-0",
    }  # fmt: skip
    (told,) = values(log)
    assert told.pop("scrape_duration_seconds")[0] < 10
    assert told == {
        "vllm:prompt_tokens_total": [5.0], "vllm:num_requests_running": [2.0], "vllm:iteration_tokens_total": [(1, 3.0)],
        "overhead_seconds": [(1, 0.5)], "up": [1.0], "scrape_samples_scraped": [12.0],
    }  # fmt: skip
    metrics = {metric.name: metric for metric in block.scope_metrics[0].metrics}
    counter = metrics["vllm:prompt_tokens_total"].sum
    assert (counter.is_monotonic, counter.aggregation_temporality) == (True, 2)
    assert 0 <= counter.data_points[0].time_unix_nano - counter.data_points[0].start_time_unix_nano < 60 * 10**9
    histogram = metrics["vllm:iteration_tokens_total"].histogram.data_points[0]
    assert (list(histogram.explicit_bounds), list(histogram.bucket_counts)) == ([1.0, 8.0], [0, 1, 0])


def test_counters_keep_the_name_that_they_are_exposed_by() -> None:
    log, page = MemoryLog(), "# TYPE bytes counter\nbytes 1\n# TYPE tokens_total counter\ntokens_total 2\n"
    with serving(Exporter(page)) as port:
        scrape(scraper(log, lambda: NOW, target(port)))
    (told,) = values(log)
    assert (told["bytes"], told["tokens_total"], "bytes_total" in told) == ([1.0], [2.0], False)


def test_gauges_end_when_they_leave_the_page_or_the_target_goes_down(caplog: pytest.LogCaptureFixture) -> None:
    exporter, log = Exporter('a 1\nb{x="1"} 2\nb{x="2"} 3\n'), MemoryLog()
    with serving(exporter) as port:
        one = scraper(log, lambda: NOW, target(port))
        scrape(one)
        exporter.page = 'b{x="2"} 3\n'
        scrape(one)
        exporter.status = 503
        with caplog.at_level(logging.WARNING):
            scrape(one)
            scrape(one)
        exporter.status = 200
        scrape(one)
    first, second, third, fourth, fifth = values(log)
    assert (first["a"], first["b"]) == ([1.0], [2.0, 3.0])
    assert (second["a"], second["b"]) == ([None], [3.0, None])
    assert (third["b"], third["up"]) == ([None], [0.0])
    assert "b" not in fourth and fourth["up"] == [0.0]
    assert fifth["up"] == [1.0]
    assert [message for message in caplog.messages if "down" in message] == [
        f"engine at http://127.0.0.1:{port}/metrics is down: answers 503"
    ]


def test_a_target_that_is_not_there_is_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    log = MemoryLog()
    scrape(scraper(log, lambda: NOW, target(port)))
    assert up(log) == [0.0]


def hangs(connection: socket.socket) -> None:
    time.sleep(30)


def drips(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(300):
        connection.sendall(b"a 1\n")
        time.sleep(0.1)


def drips_headers(connection: socket.socket) -> None:
    for letter in b"HTTP/1.1 200 OK\r\nx-slow: " + b"a" * 300:
        connection.sendall(bytes([letter]))
        time.sleep(0.1)


@pytest.mark.parametrize("behaviour", [hangs, drips, drips_headers])
def test_a_target_that_hangs_is_given_up_in_time_and_holds_up_no_other(behaviour: Any, caplog: pytest.LogCaptureFixture) -> None:
    log, exporter, stop = MemoryLog(), Exporter("a 1\n"), threading.Event()
    with answering(behaviour) as slow, serving(exporter) as quick:
        one = scraper(log, time.time_ns, target(slow, timeout_seconds=0.5, interval_seconds=1), target(quick, interval_seconds=1))
        thread = threading.Thread(target=one.run, args=(stop,))
        began = time.monotonic()
        thread.start()
        while sorted(up(log))[:1] != [0.0] or up(log).count(1.0) < 2:
            assert time.monotonic() - began < 20
            time.sleep(0.05)
        stop.set()
        thread.join(10)
    assert not thread.is_alive()
    assert "no answer within 0.5 s" in caplog.text


def test_a_gigabyte_is_cut_off_at_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    sent = []

    def counts(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(1024):
            sent.append(connection.send(b"a 1\n" * 262_144))

    log = MemoryLog()
    with answering(counts) as port:
        scrape(scraper(log, lambda: NOW, target(port, max_body_bytes=100_000)))
    assert up(log) == [0.0] and sum(sent) < 50_000_000
    assert "more than 100000 bytes" in caplog.text


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (b"\x00\xff{{{ not metrics", "not Prometheus text"),
        ("a{" + ",".join(f'l{n}="1"' for n in range(65)) + "} 1\n", "65 labels"),
        ('a{b="' + "x" * 4097 + '"} 1\n', "4097 characters"),
        ("x" * 257 + " 1\n", "257 characters"),
        ("a 1\n" * 11, "more than 10 samples"),
        ("a one\n", "not Prometheus text"),
        ('a{b="1 1\n', "not Prometheus text"),
    ],
)
def test_a_page_that_cannot_be_taken_is_a_target_that_is_down(page: str | bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()
    with serving(Exporter(page)) as port:
        scrape(scraper(log, lambda: NOW, target(port, max_samples=10)))
    assert up(log) == [0.0]
    assert reason in caplog.text


def test_openmetrics_that_breaks_its_rules_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()
    with serving(Exporter("a 1\n", headers={"content-type": "application/openmetrics-text; version=1.0.0"})) as port:
        scrape(scraper(log, lambda: NOW, target(port)))
    assert up(log) == [0.0] and "not OpenMetrics" in caplog.text


def test_redirects_are_not_followed_and_tokens_stay_with_the_target(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "token").write_text("secret\n")
    elsewhere, log = Exporter("a 1\n"), MemoryLog()
    with serving(elsewhere) as other, serving(Exporter(status=302, headers={"location": f"http://127.0.0.1:{other}/"})) as port:
        scrape(scraper(log, lambda: NOW, target(port, bearer_token_file=str(tmp_path / "token"))))
        assert elsewhere.asked == [] and up(log) == [0.0] and f"redirects to 'http://127.0.0.1:{other}/'" in caplog.text
        scrape(scraper(log, lambda: NOW, target(other, bearer_token_file=str(tmp_path / "token"))))
        scrape(scraper(log, lambda: NOW, target(other, bearer_token_file=str(tmp_path / "none"))))
    assert [asked.get("authorization") for asked in elsewhere.asked] == ["Bearer secret"]
    assert up(log) == [0.0, 1.0, 0.0]


def test_a_log_that_takes_nothing_loses_a_scrape_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    def full() -> None:
        raise LogFull("no room")

    log = MemoryLog(before_append=full)
    with serving(Exporter("a 1\n")) as port:
        one = scraper(log, lambda: NOW, target(port))
        scrape(one)
        log.before_append = lambda: None
        scrape(one)
    assert "is lost: no room" in caplog.text and [told["a"] for told in values(log)] == [[1.0]]


def test_a_large_page_becomes_messages_that_the_log_takes() -> None:
    page = "# TYPE c_total counter\n" + "".join(f'c_total{{n="{n}"}} {n}\n' for n in range(3000)) + "".join(f"g{n} 1\n" for n in range(500))
    log = MemoryLog()
    with serving(Exporter(page)) as port:
        scrape(scraper(log, lambda: NOW, target(port), bytes_max=20_000))
    assert len(log.records) > 5 and max(len(record.value) for record in log.records) <= 20_000
    assert sorted(value for told in values(log) for value in told.get("c_total", ())) == [float(n) for n in range(3000)]
    for record in log.records:
        for metric in ExportMetricsServiceRequest.FromString(record.value).resource_metrics[0].scope_metrics[0].metrics:
            assert metric.name != "c_total" or (metric.sum.is_monotonic and metric.sum.aggregation_temporality == 2)


def test_targets_are_scraped_at_even_distances_and_a_slow_one_skips() -> None:
    stop, log = threading.Event(), MemoryLog()
    with serving(Exporter("a 1\n")) as port:
        one = scraper(log, time.time_ns, target(port, interval_seconds=1, timeout_seconds=1))
        thread = threading.Thread(target=one.run, args=(stop,))
        thread.start()
        time.sleep(2.5)
        stop.set()
        thread.join(10)
    assert len(log.records) == 3
