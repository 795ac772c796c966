"""What both logs promise: one suite over SQLite and a real Kafka broker."""

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import ConfigurationError
from pipeline.log import open_append_log, open_read_log
from schemas.log import AppendLog, LogUnavailable, ReadLog, Record, RecordTooLarge, TopicPartition
from schemas.settings import LogSettings

MAX_BODY_BYTES = 4_194_304
PATIENCE_SECONDS = 30.0
ALL = 1 << 30


@pytest.fixture(params=["sqlite", "kafka"])
def log_settings(request: pytest.FixtureRequest, tmp_path: Path) -> LogSettings:
    if request.param == "sqlite":
        return LogSettings(url=f"sqlite:{tmp_path}/log/log.sqlite")
    return LogSettings(url=f"kafka://{request.getfixturevalue('kafka_broker').bootstrap_servers}")


@pytest.fixture
def topic() -> str:
    return f"spans-{uuid4().hex}"


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex}"


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Closes what a test opened."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def append_log(log_settings: LogSettings, topic: str, opened: ExitStack) -> AppendLog:
    return opened.enter_context(closing(open_append_log(log_settings, MAX_BODY_BYTES, [topic])))


@pytest.fixture
def read_log(log_settings: LogSettings, append_log: AppendLog, topic: str, group: str, opened: ExitStack) -> ReadLog:
    return opened.enter_context(closing(open_read_log(log_settings, [topic], group)))


def read(log: ReadLog, count: int) -> list[Record]:
    """Polls until `count` records came. Fails when they do not."""
    records: list[Record] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
        records += log.poll(count - len(records), ALL, 1.0)
    return records


def commit_all(log: ReadLog, records: list[Record]) -> None:
    log.commit({TopicPartition(record.topic, record.partition): record.offset + 1 for record in records})


def test_records_come_back_in_order_with_offsets_from_zero(append_log: AppendLog, read_log: ReadLog, topic: str) -> None:
    for number in range(50):
        append_log.append(topic, {}, b"%d" % number)
    records = read(read_log, 50)
    assert [record.value for record in records] == [b"%d" % number for number in range(50)]
    assert [(record.topic, record.partition, record.offset) for record in records] == [(topic, 0, number) for number in range(50)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.text(st.characters(exclude_categories=["Cs"]))),
    st.binary(),
)
def test_headers_and_values_come_back_as_they_went_in(
    append_log: AppendLog, read_log: ReadLog, topic: str, headers: Mapping[str, str], value: bytes
) -> None:
    append_log.append(topic, headers, value)
    (record,) = read(read_log, 1)
    assert (record.headers, record.value) == (headers, value)


def test_the_empty_value_and_the_largest_come_back(append_log: AppendLog, read_log: ReadLog, topic: str) -> None:
    largest = incompressible(MAX_BODY_BYTES)
    append_log.append(topic, {"principal": "tenant/Bücher-😀"}, b"")
    append_log.append(topic, {}, largest)
    records = read(read_log, 2)
    assert records[0].headers == {"principal": "tenant/Bücher-😀"}
    assert [record.value for record in records] == [b"", largest]


def incompressible(size_bytes: int) -> bytes:
    return random.Random(7).randbytes(size_bytes)


def test_a_record_beyond_the_limit_is_refused(append_log: AppendLog, read_log: ReadLog, topic: str) -> None:
    with pytest.raises(RecordTooLarge):
        append_log.append(topic, {}, bytes(MAX_BODY_BYTES + 1))
    with pytest.raises(RecordTooLarge):
        append_log.append(topic, {"error": "x" * 70_000}, b"")
    assert read_log.end_offsets() == {TopicPartition(topic, 0): 0}


def test_a_topic_that_was_not_named_is_refused(append_log: AppendLog) -> None:
    with pytest.raises(ValueError, match="was not named"):
        append_log.append("another", {}, b"x")


def test_a_poll_stops_at_max_bytes_and_returns_a_larger_record_alone(append_log: AppendLog, read_log: ReadLog, topic: str) -> None:
    sizes = [100, 100, 5_000, 100, 100]
    for size in sizes:
        append_log.append(topic, {}, bytes(size))
    read(read_log, 5)  # so that all five are there at once for the polls below
    read_log.rewind()
    polled: list[list[int]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sum(map(len, polled)) < 5:
        assert time.monotonic() < deadline
        if records := read_log.poll(1_000, 250, 1.0):
            polled.append([len(record.value) for record in records])
    assert [size for sizes_of_poll in polled for size in sizes_of_poll] == sizes
    assert all(len(sizes_of_poll) == 1 or sum(sizes_of_poll) <= 250 for sizes_of_poll in polled)
    assert [5_000] in polled


def test_a_poll_returns_at_most_max_records(append_log: AppendLog, read_log: ReadLog, topic: str) -> None:
    for _ in range(7):
        append_log.append(topic, {}, b"x")
    read(read_log, 7)
    read_log.rewind()
    offsets: list[int] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(offsets) < 7:
        assert time.monotonic() < deadline
        records = read_log.poll(3, ALL, 1.0)
        assert len(records) <= 3
        offsets += [record.offset for record in records]
    assert offsets == list(range(7))


def test_a_poll_of_nothing_returns_empty_after_its_time(append_log: AppendLog, read_log: ReadLog, topic: str) -> None:
    append_log.append(topic, {}, b"x")
    read(read_log, 1)  # Kafka: the group is joined
    began = time.monotonic()
    assert list(read_log.poll(10, ALL, 0.3)) == []
    assert 0.29 <= time.monotonic() - began < PATIENCE_SECONDS
    assert list(read_log.poll(10, ALL, 0.0)) == []


def test_an_append_ends_a_waiting_poll(append_log: AppendLog, read_log: ReadLog, topic: str) -> None:
    append_log.append(topic, {}, b"first")
    read(read_log, 1)
    appending = threading.Timer(0.2, append_log.append, (topic, {}, b"second"))
    began = time.monotonic()
    appending.start()
    (record,) = read_log.poll(10, ALL, 60.0)
    appending.join()
    assert record.value == b"second"
    assert time.monotonic() - began < 10.0


def test_offsets_are_those_that_were_committed(append_log: AppendLog, read_log: ReadLog, topic: str) -> None:
    here = TopicPartition(topic, 0)
    assert (read_log.committed(), read_log.end_offsets()) == ({here: 0}, {here: 0})
    for number in range(10):
        append_log.append(topic, {}, b"%d" % number)
    read(read_log, 6)
    assert (read_log.committed(), read_log.end_offsets()) == ({here: 0}, {here: 10})
    read_log.commit({here: 4})
    read_log.commit({here: 4})
    read_log.commit({})
    assert (read_log.committed(), read_log.end_offsets()) == ({here: 4}, {here: 10})


def test_rewind_goes_back_to_the_committed_offsets(append_log: AppendLog, read_log: ReadLog, topic: str) -> None:
    for number in range(10):
        append_log.append(topic, {}, b"%d" % number)
    read(read_log, 5)
    read_log.rewind()
    assert [record.offset for record in read(read_log, 10)] == list(range(10))
    read_log.commit({TopicPartition(topic, 0): 3})
    read_log.rewind()
    assert [record.offset for record in read(read_log, 7)] == list(range(3, 10))


def test_a_new_consumer_goes_on_where_the_group_committed(
    log_settings: LogSettings, append_log: AppendLog, read_log: ReadLog, topic: str, group: str
) -> None:
    for number in range(10):
        append_log.append(topic, {}, b"%d" % number)
    commit_all(read_log, read(read_log, 10)[:6])
    read_log.close()
    with closing(open_read_log(log_settings, [topic], group)) as next_log:
        assert next_log.committed() == {TopicPartition(topic, 0): 6}
        assert [record.offset for record in read(next_log, 4)] == [6, 7, 8, 9]


def test_appends_after_reopening_continue_the_offsets(log_settings: LogSettings, append_log: AppendLog, topic: str, group: str) -> None:
    append_log.append(topic, {}, b"one")
    append_log.close()
    with (
        closing(open_append_log(log_settings, MAX_BODY_BYTES, [topic])) as again,
        closing(open_read_log(log_settings, [topic], group)) as log,
    ):
        again.append(topic, {}, b"two")
        assert [(record.offset, record.value) for record in read(log, 2)] == [(0, b"one"), (1, b"two")]


def test_groups_do_not_see_each_other(log_settings: LogSettings, append_log: AppendLog, read_log: ReadLog, topic: str, group: str) -> None:
    append_log.append(topic, {}, b"x")
    commit_all(read_log, read(read_log, 1))
    with closing(open_read_log(log_settings, [topic], group + "-other")) as other:
        assert other.committed() == {TopicPartition(topic, 0): 0}
        assert len(read(other, 1)) == 1


def test_looking_without_a_group_reads_everything_and_commits_nothing(
    log_settings: LogSettings, append_log: AppendLog, read_log: ReadLog, topic: str, group: str
) -> None:
    for number in range(5):
        append_log.append(topic, {}, b"%d" % number)
    commit_all(read_log, read(read_log, 5))
    with closing(open_read_log(log_settings, [topic], None)) as looking:
        assert [record.offset for record in read(looking, 5)] == [0, 1, 2, 3, 4]
        looking.rewind()
        assert [record.offset for record in read(looking, 5)] == [0, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="without a group"):
            looking.commit({TopicPartition(topic, 0): 1})
        assert looking.committed() == {TopicPartition(topic, 0): 0}
    assert read_log.committed() == {TopicPartition(topic, 0): 5}


def test_one_consumer_reads_several_topics(log_settings: LogSettings, topic: str, group: str, opened: ExitStack) -> None:
    topics = [f"{topic}-{number}" for number in range(3)]
    append_log = opened.enter_context(closing(open_append_log(log_settings, MAX_BODY_BYTES, topics)))
    log = opened.enter_context(closing(open_read_log(log_settings, topics, group)))
    for number in range(12):
        append_log.append(topics[number % 3], {}, b"%d" % number)
    records = read(log, 12)
    for index, name in enumerate(topics):
        of_topic = [(record.offset, record.value) for record in records if record.topic == name]
        assert of_topic == [(offset, b"%d" % (offset * 3 + index)) for offset in range(4)]
    commit_all(log, records)
    assert log.committed() == log.end_offsets() == {TopicPartition(name, 0): 4 for name in topics}


def test_many_threads_append_without_loss_or_disorder(append_log: AppendLog, read_log: ReadLog, topic: str) -> None:
    def append_many(thread: int) -> None:
        for number in range(40):
            append_log.append(topic, {"thread": str(thread)}, b"%d" % number)

    threads = [threading.Thread(target=append_many, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = read(read_log, 320)
    assert [record.offset for record in records] == list(range(320))
    for number in range(8):
        assert [int(record.value) for record in records if record.headers["thread"] == str(number)] == list(range(40))


def test_a_closed_log_refuses_work(append_log: AppendLog, read_log: ReadLog, topic: str) -> None:
    append_log.close()
    append_log.close()
    with pytest.raises(LogUnavailable, match="closed"):
        append_log.append(topic, {}, b"x")
    read_log.close()
    read_log.close()
    with pytest.raises(LogUnavailable, match="closed"):
        read_log.poll(1, ALL, 0.0)
    with pytest.raises(LogUnavailable, match="closed"):
        read_log.commit({TopicPartition(topic, 0): 1})


@pytest.mark.parametrize("url", ["", "file:log", "sqlite:", "kafka://", "kafka://host", "kafka://a:1,b", "redis://host:1"])
def test_a_url_of_another_kind_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\[log\] url"):
        open_append_log(LogSettings(url=url), MAX_BODY_BYTES, ["otlp_spans"])
    with pytest.raises(ConfigurationError, match=r"\[log\] url"):
        open_read_log(LogSettings(url=url), ["otlp_spans"], "group")
