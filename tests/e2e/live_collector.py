"""A real OpenTelemetry Collector in front: OTLP to the Collector, `kafkaexporter` (otlp_proto) to a Kafka topic that the loader reads.

The Collector is built from its Go modules by the Collector's own builder, once. What it is sent is a replay of modelled traffic
whose truth is known; what comes out must be the same, whether a record holds a batch or one trace (`partition_traces_by_id`).
"""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.admin import NewTopic
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.e2e.environments import CACHE, PINS, CannotRun, finish
from tests.e2e.reading import attributed, count, eventually, query
from tests.kafka_broker import KafkaBroker
from tests.processes import free_port, output_of, up

BUILDER = "go.opentelemetry.io/collector/cmd/builder@v0.165.0"
BUILD_SECONDS = 2400
START_SECONDS = 60.0
REQUESTS = 150
CONFIG = """\
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{port}"}}
processors:
  batch: {{timeout: 200ms}}
exporters:
  kafka:
    brokers: ["{brokers}"]
    traces: {{topic: "{topic}", encoding: otlp_proto}}
    partition_traces_by_id: {by_trace}
service:
  telemetry:
    metrics: {{level: none}}
  pipelines:
    traces: {{receivers: [otlp], processors: [batch], exporters: [kafka]}}
"""


def collector_binary() -> Path:
    """Builds it when its list of modules changed. Raises CannotRun."""
    manifest, directory = PINS / "collector.yaml", CACHE / "collector"
    binary, stamp = directory / "build" / "otelcol", directory / "manifest.sha256"
    wanted = hashlib.sha256(manifest.read_bytes() + BUILDER.encode()).hexdigest()
    if binary.exists() and stamp.exists() and stamp.read_text() == wanted:
        return binary
    go = shutil.which("go")
    if go is None:
        raise CannotRun("building a Collector needs go on the PATH")
    directory.mkdir(parents=True, exist_ok=True)
    caches = {"GOBIN": str(directory), "GOMODCACHE": str(CACHE / "go" / "modules"), "GOCACHE": str(CACHE / "go" / "build")}
    finish([go, "install", BUILDER], BUILD_SECONDS, **caches, GOFLAGS="-modcacherw")
    shutil.copy(manifest, directory)
    builder = ["env", "-C", str(directory), "./builder", "--config", manifest.name]
    finish(builder, BUILD_SECONDS, **caches, GOFLAGS="-modcacherw")
    stamp.write_text(wanted)
    return binary


@pytest.fixture(scope="module")
def binary() -> Path:
    try:
        return collector_binary()
    except CannotRun as error:
        pytest.skip(f"no OpenTelemetry Collector can be built here: {error}")


@contextmanager
def collector(binary: Path, directory: Path, brokers: str, topic: str, by_trace: bool) -> Iterator[str]:
    """Its OTLP/gRPC address. Ended by SIGTERM: it sends what it still holds, and must end with exit 0."""
    port, config, log = free_port(), directory / "collector.yaml", directory / "collector.log"
    config.write_text(CONFIG.format(port=port, brokers=brokers, topic=topic, by_trace=str(by_trace).lower()))
    with log.open("w") as file:
        process = subprocess.Popen([str(binary), "--config", str(config)], stdout=file, stderr=file, env=dict(os.environ))
    try:
        deadline = time.monotonic() + START_SECONDS
        while not listens(port):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        yield f"grpc://127.0.0.1:{port}"
        process.terminate()
        assert process.wait(60) == 0, log.read_text()[-3000:]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def new_topic(broker: KafkaBroker, name: str) -> str:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics([NewTopic(name, 3, 1)])
    admin.close()
    return name


def records(broker: KafkaBroker, topic: str) -> list[set[bytes]]:
    """The trace ids in each record of the topic."""
    consumer = KafkaConsumer(topic, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=3000)
    messages = [ExportTraceServiceRequest.FromString(record.value) for record in consumer]
    consumer.close()
    return [{s.trace_id for r in m.resource_spans for scope in r.scope_spans for s in scope.spans} for m in messages]


def request_trace(directory: Path) -> Path:
    """A request every 200 ms, in Mooncake's format; every third repeats the prompt of the one before."""
    file = directory / "requests.jsonl"
    rows = (
        {"timestamp": 200 * n, "input_length": 1024 + 8 * (n % 7), "output_length": 20 + n % 30, "hash_ids": [n - n % 3, n - n % 3 + 1000]}
        for n in range(REQUESTS)
    )
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def told(row: dict[str, Any]) -> tuple[Any, ...]:
    """What both a reading and the truth say of a request; of an unfinished one the truth knows tokens that no span tells."""
    tokens = (row["input_tokens"], row["output_tokens"]) if row["outcome"] in ("useful", "late") else ()
    return (row["tenant"], row["model"], row["attempts"], *tokens)


@pytest.mark.parametrize("by_trace", [False, True], ids=["a record holds a batch", "a record holds one trace"])
def test_what_goes_through_a_collector_and_kafka_is_read_as_it_was_sent(
    by_trace: bool, binary: Path, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    kafka_broker.ensure_running()
    topic = new_topic(kafka_broker, f"from-collector-{time.time_ns()}")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "tokenpath.toml").write_text(f'[[topic]]\nname = "{topic}"\nsignal = "traces"\nprincipal = "platform"\n')
    with up(
        tmp_path / "data", "--config", str(tmp_path / "config"), TOKENPATH_LOG_URL=f"kafka://{kafka_broker.bootstrap_servers}"
    ) as running:
        with collector(binary, tmp_path, kafka_broker.bootstrap_servers, topic, by_trace) as address:
            began = datetime.now(UTC) - timedelta(minutes=10)
            options = ("--start", began.isoformat(), "--to", address, "--truth", str(tmp_path / "truth"))
            output_of("replay", request_trace(tmp_path), *options)
        truth = [json.loads(line) for line in (tmp_path / "truth" / "requests.jsonl").read_text().splitlines()]
        gateways = f"topic = '{topic}' AND name = 'gateway' AND principal = 'platform'"
        eventually(lambda: count(running, gateways) == len(truth), f"{len(truth)} requests from the topic")
        eventually(lambda: all(part["lag"] == 0 for part in running.command("status")["log"]), "an empty log")
        requests, _ = attributed(running)
        assert query(running, "SELECT DISTINCT principal, topic FROM spans FINAL") == [{"principal": "platform", "topic": topic}]
        assert running.command("status")["dead_letters"] == 0
    assert {row["trace_id"].hex(): told(row) for row in requests} == {row["trace_id"]: told(row) for row in truth}
    per_record = records(kafka_broker, topic)
    assert {len(traces) for traces in per_record} == {1} if by_trace else max(map(len, per_record)) > 1
