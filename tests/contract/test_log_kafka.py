"""What the Kafka log promises beyond the common suite: a broker that goes away, topics, consumers that share a group."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from pipeline.errors import ConfigurationError
from pipeline.log import kafka as kafka_log
from pipeline.log import kafka_clients, open_append_log, open_read_log
from pipeline.log.kafka import KafkaAppendLog, KafkaReadLog
from pipeline.log.kafka_topics import check_topics
from pipeline.log.limits import record_bytes_max
from schemas.log import LogFull, LogUnavailable, Record, TopicPartition
from schemas.settings import LogSettings
from tests.kafka_broker import SECURED_PASSWORD, SECURED_USER, KafkaBroker, RunningBroker, free_ports

MAX_BODY_BYTES = 4_194_304
ALL = 1 << 30


@pytest.fixture
def log_settings(kafka_broker: KafkaBroker | RunningBroker) -> LogSettings:
    return LogSettings(url=f"kafka://{kafka_broker.bootstrap_servers}")


@pytest.fixture
def own_broker(kafka_broker: KafkaBroker | RunningBroker) -> Iterator[KafkaBroker]:
    """The broker, where we may take it away; there again afterwards."""
    if not isinstance(kafka_broker, KafkaBroker):
        pytest.skip("the broker of KAFKA_BOOTSTRAP_SERVERS is not ours to stop")
    yield kafka_broker
    kafka_broker.ensure_running()


@pytest.fixture
def admin(kafka_broker: KafkaBroker | RunningBroker) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic() -> str:
    return f"spans-{uuid4().hex}"


def read(log: KafkaReadLog, count: int) -> list[Record]:
    records: list[Record] = []
    deadline = time.monotonic() + 60
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
        records += log.poll(count - len(records), ALL, 1.0)
    return records


def seconds_until_unavailable(call: Callable[[], object]) -> float:
    """How long it takes until `call`, repeated, says that the log is unavailable."""
    began = time.monotonic()
    while time.monotonic() < began + 60:
        try:
            call()
        except LogUnavailable:
            return time.monotonic() - began
    raise AssertionError("never said that the log is unavailable")


def until_it_works(call: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            call()
        except LogUnavailable:
            assert time.monotonic() < deadline, "did not recover"
        else:
            return


def take_away_and_bring_back(log_settings: LogSettings, topic: str, away: Callable[[], None], back: Callable[[], None]) -> None:
    """Appends and reads around an outage: each tells within its time, and afterwards every acknowledged record is there."""
    here = TopicPartition(topic, 0)
    with (
        closing(KafkaAppendLog(log_settings, MAX_BODY_BYTES, [topic])) as append_log,
        closing(KafkaReadLog(log_settings, [topic], f"group-{topic}")) as read_log,
    ):
        for number in range(20):
            append_log.append(topic, {}, b"before %d" % number)
        assert len(read(read_log, 10)) == 10
        read_log.commit({here: 5})
        away()
        assert seconds_until_unavailable(lambda: append_log.append(topic, {}, b"during")) < 5
        assert seconds_until_unavailable(lambda: read_log.poll(100, ALL, 0.5)) < 6
        assert seconds_until_unavailable(lambda: read_log.commit({here: 10})) < 5
        assert seconds_until_unavailable(read_log.rewind) < 5
        back()
        until_it_works(lambda: append_log.append(topic, {}, b"after"))
        append_log.append(topic, {}, b"last")
        until_it_works(read_log.rewind)
        values: list[bytes] = []
        while b"last" not in values:
            until_it_works(lambda: values.extend(record.value for record in read(read_log, 1)))
        assert values[:15] == [b"before %d" % number for number in range(5, 20)]
        # What was not acknowledged may be there all the same.
        assert set(values[15:-1]) in ({b"after"}, {b"during", b"after"})
        until_it_works(lambda: read_log.commit({here: 20}))
        assert read_log.committed() == {here: 20}


@pytest.fixture
def short_time_outs(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an outage need not last long to be told."""
    monkeypatch.setattr(kafka_clients, "REQUEST_TIMEOUT_MS", 1_500)
    monkeypatch.setattr(kafka_clients, "DELIVERY_TIMEOUT_MS", 2_500)
    monkeypatch.setattr(kafka_log, "COMMIT_TIMEOUT_MS", 1_500)
    monkeypatch.setattr(kafka_log, "SIGN_OF_LIFE_SECONDS", 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("short_time_outs")
def test_a_broker_that_crashes_is_told_in_time_and_nothing_is_lost(log_settings: LogSettings, own_broker: KafkaBroker, topic: str) -> None:
    take_away_and_bring_back(log_settings, topic, own_broker.kill, own_broker.start)


@pytest.mark.slow
@pytest.mark.usefixtures("short_time_outs")
def test_a_broker_that_stands_still_is_told_in_time_and_nothing_is_lost(
    log_settings: LogSettings, own_broker: KafkaBroker, topic: str
) -> None:
    take_away_and_bring_back(log_settings, topic, own_broker.pause, own_broker.resume)


@pytest.mark.slow
@pytest.mark.usefixtures("short_time_outs")
def test_logs_are_closed_though_the_broker_is_away(log_settings: LogSettings, own_broker: KafkaBroker, topic: str) -> None:
    append_log, read_log = KafkaAppendLog(log_settings, MAX_BODY_BYTES, [topic]), KafkaReadLog(log_settings, [topic], f"group-{topic}")
    append_log.append(topic, {}, b"x")
    read(read_log, 1)
    own_broker.pause()
    began = time.monotonic()
    append_log.close()
    read_log.close()
    assert time.monotonic() - began < 20


def test_more_than_the_buffer_holds_is_refused_while_the_broker_stands_still(
    log_settings: LogSettings, own_broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_log, "BUFFER_WAIT_SECONDS", 0.2)
    with closing(KafkaAppendLog(log_settings, MAX_BODY_BYTES, [topic], buffer_bytes=1_000)) as log:
        log.append(topic, {}, b"x")
        own_broker.pause()
        waiting = threading.Thread(target=log.append, args=(topic, {}, bytes(900)))
        waiting.start()
        while not log._buffer._held_bytes:
            time.sleep(0.01)
        with pytest.raises(LogFull, match="slower than the senders"):
            log.append(topic, {}, bytes(200))
        own_broker.resume()
        waiting.join()
        log.append(topic, {}, bytes(200))


@pytest.mark.usefixtures("short_time_outs")
def test_nobody_at_the_address_is_told_in_time() -> None:
    (port,) = free_ports(1)
    settings, began = LogSettings(url=f"kafka://127.0.0.1:{port}"), time.monotonic()
    with pytest.raises(LogUnavailable, match=str(port)):
        open_append_log(settings, MAX_BODY_BYTES, ["otlp_spans"])
    with pytest.raises(LogUnavailable, match=str(port)):
        open_read_log(settings, ["otlp_spans"], "group")
    assert time.monotonic() - began < 6


def test_missing_topics_are_made_with_room_for_the_largest_body(log_settings: LogSettings, topic: str, admin: KafkaAdminClient) -> None:
    topics = [topic, topic + "-2"]
    for _ in range(2):
        open_append_log(log_settings, MAX_BODY_BYTES, topics).close()
    check_topics(admin, record_bytes_max(MAX_BODY_BYTES), topics)
    with pytest.raises(ConfigurationError, match=f"{topic}.*max.message.bytes"):
        check_topics(admin, record_bytes_max(MAX_BODY_BYTES) + 1, [topic])


def test_a_topic_without_room_for_the_largest_body_is_a_configuration_error(
    log_settings: LogSettings, topic: str, admin: KafkaAdminClient
) -> None:
    admin.create_topics({topic: {"num_partitions": 1, "configs": {"max.message.bytes": "1000000"}}}, wait_for_metadata=True)
    with pytest.raises(ConfigurationError, match="max_body_bytes needs"):
        open_append_log(log_settings, MAX_BODY_BYTES, [topic])


@pytest.mark.parametrize(
    "security",
    [
        {"security_protocol": "SASL_SSL"},
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"},
        {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "someone"},
        {"security_protocol": "SSL", "ssl_cafile": "/nowhere/ca.pem"},
    ],
)
def test_security_settings_that_cannot_work_are_configuration_errors(log_settings: LogSettings, security: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        open_append_log(LogSettings.model_validate({"url": log_settings.url, **security}), MAX_BODY_BYTES, ["otlp_spans"])


def secured(broker: KafkaBroker, **changed: str) -> LogSettings:
    settings = {
        "url": f"kafka://{broker.secured_servers}",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": SECURED_USER,
        "sasl_password": SECURED_PASSWORD,
        "ssl_cafile": str(broker.certificate_file),
    }
    return LogSettings.model_validate({**settings, **changed})


def test_a_secured_broker_is_used_with_certificate_and_password(own_broker: KafkaBroker, topic: str) -> None:
    settings = secured(own_broker)
    with (
        closing(open_append_log(settings, MAX_BODY_BYTES, [topic])) as append_log,
        closing(KafkaReadLog(settings, [topic], f"group-{topic}")) as read_log,
    ):
        append_log.append(topic, {}, b"secret")
        assert read(read_log, 1)[0].value == b"secret"


@pytest.mark.usefixtures("short_time_outs")
@pytest.mark.parametrize("wrong", [{"sasl_password": "wrong"}, {"ssl_cafile": ""}])
def test_a_wrong_password_or_an_untrusted_certificate_ends_in_a_hint(own_broker: KafkaBroker, topic: str, wrong: dict[str, str]) -> None:
    with pytest.raises(LogUnavailable, match="wrong password or an untrusted certificate"):
        open_append_log(secured(own_broker, **wrong), MAX_BODY_BYTES, [topic])


def test_a_reader_finds_a_topic_that_is_made_later(log_settings: LogSettings, topic: str) -> None:
    with closing(KafkaReadLog(log_settings, [topic], f"group-{topic}")) as read_log:
        assert list(read_log.poll(10, ALL, 0.1)) == []
        assert (read_log.committed(), read_log.end_offsets()) == ({}, {})
        with closing(KafkaAppendLog(log_settings, MAX_BODY_BYTES, [topic])) as append_log:
            append_log.append(topic, {}, b"x")
        assert read(read_log, 1)[0].value == b"x"


def test_looking_without_a_group_at_a_topic_that_is_missing_finds_nothing(log_settings: LogSettings, topic: str) -> None:
    with closing(open_read_log(log_settings, [topic], None)) as log:
        assert list(log.poll(10, ALL, 0.0)) == []
        assert log.end_offsets() == {}


def test_records_of_a_collector_without_our_headers_are_read(log_settings: LogSettings, topic: str, admin: KafkaAdminClient) -> None:
    admin.create_topics({topic: {"num_partitions": 1}}, wait_for_metadata=True)
    producer = KafkaProducer(bootstrap_servers=log_settings.url.removeprefix("kafka://"), compression_type="zstd")
    producer.send(topic, value=b"plain")
    producer.send(topic, value=None, key=b"key", headers=[("odd", b"\xff"), ("none", b"")])
    producer.close()
    with closing(KafkaReadLog(log_settings, [topic], f"group-{topic}")) as log:
        records = read(log, 2)
    assert [(record.headers, record.value) for record in records] == [({}, b"plain"), ({"odd": "\ufffd", "none": ""}, b"")]


def test_two_consumers_of_a_group_share_the_partitions_and_lose_nothing(
    log_settings: LogSettings, topic: str, admin: KafkaAdminClient
) -> None:
    admin.create_topics(
        {topic: {"num_partitions": 2, "configs": {"max.message.bytes": str(record_bytes_max(MAX_BODY_BYTES))}}}, wait_for_metadata=True
    )
    with (
        closing(KafkaAppendLog(log_settings, MAX_BODY_BYTES, [topic])) as append_log,
        closing(KafkaReadLog(log_settings, [topic], f"group-{topic}")) as first,
        closing(KafkaReadLog(log_settings, [topic], f"group-{topic}")) as second,
    ):
        for number in range(100):
            append_log.append(topic, {}, b"%d" % number)
        alone = read(first, 10)  # the first has both partitions, and more records in hand than it gave out
        values, lock, done = {record.value for record in alone}, threading.Lock(), threading.Event()

        def consume(log: KafkaReadLog) -> None:
            while not done.is_set():
                try:
                    records = log.poll(7, ALL, 0.2)
                    log.commit({TopicPartition(record.topic, record.partition): record.offset + 1 for record in records})
                except LogUnavailable:
                    log.rewind()  # the partitions went to the other one
                    continue
                with lock:
                    values.update(record.value for record in records)

        threads = [threading.Thread(target=consume, args=(log,)) for log in (first, second)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 60
        while min(len(log._consumer.assignment()) for log in (first, second)) == 0 or sum(first.committed().values()) < 100:
            assert time.monotonic() < deadline, (values, first.committed())
            time.sleep(0.05)
        done.set()
        for thread in threads:
            thread.join()
        assert values == {b"%d" % number for number in range(100)}
        assert first.committed() == first.end_offsets()
