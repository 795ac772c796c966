"""The processes of a cluster, each alone, on a real broker: receiver to Kafka to loader to store; and a topic that a Collector writes."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.kafka_broker import KafkaBroker
from tests.processes import environment, free_port, json_of, output_of

READ = """
import json, sys
from pipeline.store.client import open_store
from schemas.settings import StoreSettings
print(json.dumps(open_store(StoreSettings(url="chdb:" + sys.argv[1])).query(sys.argv[2]).rows))
"""
CAPTURES = Path(__file__).parents[1] / "data" / "otlp"


@contextmanager
def receiver(grpc_port: int, **variables: str) -> Iterator[None]:
    """`tokenpath receive` in its own process; it must end with exit 0."""
    command = [sys.executable, "-c", "from pipeline.cli import main; main()", "receive"]
    settings = {"TOKENPATH_RECEIVE_GRPC": f"127.0.0.1:{grpc_port}", "TOKENPATH_RECEIVE_HTTP": f"127.0.0.1:{free_port()}"}
    process = subprocess.Popen(command, env=environment(**settings, **variables), stderr=subprocess.PIPE, text=True)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
            grpc.channel_ready_future(channel).result(timeout=60)
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def cluster(kafka_broker: KafkaBroker, tmp_path: Path) -> dict[str, str]:
    """Settings of every process, as docker-compose gives them; the store is embedded, each command in turn."""
    kafka_broker.ensure_running()
    return {"TOKENPATH_LOG_URL": f"kafka://{kafka_broker.bootstrap_servers}", "TOKENPATH_STORE_URL": f"chdb:{tmp_path / 'data' / 'store'}"}


def stored(tmp_path: Path, sql: str) -> list[tuple[str, ...]]:
    """From a process of its own, since the test process holds another engine."""
    store = str(tmp_path / "data" / "store")
    done = subprocess.run([sys.executable, "-c", READ, store, sql], capture_output=True, text=True, check=True, env=environment())
    return [tuple(row) for row in json.loads(done.stdout)]


def test_spans_of_the_sdk_go_through_kafka_into_the_store(cluster: dict[str, str], tmp_path: Path) -> None:
    port = free_port()
    with receiver(port, **cluster):
        provider = TracerProvider(resource=Resource({"service.name": "kafka-path"}))
        exporter = OTLPSpanExporter(endpoint=f"127.0.0.1:{port}", insecure=True)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        for number in range(5):
            with provider.get_tracer("test").start_as_current_span(f"chat {number}"):
                pass
        provider.shutdown()
    loaded = json_of("load", "--once", **cluster)
    assert (loaded["spans"], loaded["dead_letters"]) == (5, 0)
    rows = stored(tmp_path, "SELECT name, principal, topic FROM spans FINAL WHERE resource['service.name'] = 'kafka-path' ORDER BY name")
    assert rows == [(f"chat {number}", "platform", "otlp_spans") for number in range(5)]
    assert json_of("load", "--once", **cluster)["messages"] == 0
    assert all(part["lag"] == 0 for part in json_of("status", **cluster)["log"])


def test_a_topic_that_a_collector_writes_takes_its_sender_from_the_settings(
    cluster: dict[str, str], kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = f"collector-{time.time_ns()}"
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap_servers)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()
    config = tmp_path / "config"
    config.mkdir()
    (config / "tokenpath.toml").write_text(f'[[topic]]\nname = "{topic}"\nsignal = "traces"\nprincipal = "tenant/acme"\n')
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers)
    body = (CAPTURES / "vllm" / "0001-grpc-traces.binpb").read_bytes()
    producer.send(topic, body)
    producer.send(topic, b"\x0a\xff\xff\xff\x7f not OTLP")
    producer.flush()
    producer.close()
    assert json_of("load", "--once", "--config", config, **cluster)["dead_letters"] == 1
    assert stored(tmp_path, f"SELECT principal, toString(count()) FROM spans FINAL WHERE topic = '{topic}' GROUP BY 1") == [
        ("tenant/acme", "8")
    ]
    letters = json_of("dead-letters", "list", "--config", config, **cluster)["dead_letters"]
    (letter,) = [one for one in letters if one["topic"] == topic]
    assert (letter["offset"], letter["kept"]) == (1, True)
    assert "1 messages sent again" in output_of("dead-letters", "replay", "--config", config, "--reason", letter["reason"], **cluster)


def test_a_receiver_needs_no_store(cluster: dict[str, str], tmp_path: Path) -> None:
    with receiver(free_port(), **{**cluster, "TOKENPATH_STORE_URL": "http://nobody@127.0.0.1:1/tokenpath"}):
        assert not (tmp_path / "data").exists()
