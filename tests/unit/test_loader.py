import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from pipeline.errors import LogDown, StoreDown, TooManyDeadLetters
from pipeline.loading import dead_letter
from pipeline.loading.loader import OUTAGE_ATTEMPTS_MAX, Loader
from pipeline.store.client import Store
from schemas.log import DEAD_LETTERS_TOPIC, TRACES_TOPIC, LogFull, LogUnavailable, Record, TopicPartition
from schemas.settings import LoaderSettings, Settings, TopicSettings
from tests.ingest import RECEIVED_NS
from tests.memory_read_log import MemoryReadLog
from tests.trace_bodies import body_of_span, field, raw_span, trace_body

TRACES = TopicPartition(TRACES_TOPIC, 0)
HEADERS = {"content": "otlp_proto", "principal": "tenant/acme", "ingest_key": "edge", "received_ns": str(RECEIVED_NS)}
CORRUPT = b"\x0a\x05\x12"


class FailingStore(Store):
    """The real store, whose inserts fail as told."""

    def __init__(self, store: Store, before_insert: Callable[[], None]) -> None:
        super().__init__(store._settings, store._client, store.embedded)
        self._before_insert, self.inserts = before_insert, 0

    def insert(self, table: str, data: bytes, form: str, settings: Mapping[str, int | str] | None = None) -> None:
        self.inserts += 1
        self._before_insert()
        super().insert(table, data, form, settings)

    def another(self) -> "Store":
        return FailingStore(super().another(), self._before_insert)


@contextmanager
def loading(log: MemoryReadLog, store: Store, settings: Settings | None = None, sleeps: list[float] | None = None) -> Iterator[Loader]:
    slept = sleeps if sleeps is not None else []
    loader = Loader(log, store, log, settings or Settings(), clock=lambda: RECEIVED_NS + 5, sleeper=slept.append, timer=lambda: 0.0)
    try:
        yield loader
    finally:
        loader.close()


def letters(log: MemoryReadLog) -> list[Record]:
    return log.records.get(DEAD_LETTERS_TOPIC, [])


def spans(store: Store) -> int:
    return int(store.query("SELECT count() FROM spans FINAL").scalar())


def test_a_batch_is_stored_with_its_sender_and_then_committed(store: Store) -> None:
    log = MemoryReadLog()
    for number in range(3):
        log.append(TRACES_TOPIC, HEADERS, trace_body(number, spans=4))
    with loading(log, store) as loader:
        batch = loader.step()
        assert (batch.messages, batch.spans, batch.dead_letters, batch.newest_received_ns) == (3, 12, 0, RECEIVED_NS)
        assert log.commits == {TRACES: 3}
        assert loader.step().messages == 0
        assert (loader.counters.batches, loader.counters.spans, loader.counters.stored_received_ns) == (1, 12, RECEIVED_NS)
    assert store.query("SELECT DISTINCT principal, ingest_key, topic, received_ns FROM spans").rows == (
        ("tenant/acme", "edge", TRACES_TOPIC, RECEIVED_NS),
    )


def test_one_corrupt_message_among_ten_thousand_is_found_and_the_rest_is_stored(store: Store) -> None:
    log, corrupt = MemoryReadLog(), 6_789
    for number in range(10_000):
        log.append(TRACES_TOPIC, HEADERS, CORRUPT if number == corrupt else trace_body(number))
    counting = FailingStore(store, lambda: None)
    with loading(log, counting) as loader:
        batch = loader.step()
    assert (batch.messages, batch.spans, batch.dead_letters) == (10_000, 9_999, 1)
    assert spans(store) == 9_999
    assert log.commits == {TRACES: 10_000}
    (letter,) = letters(log)
    assert letter.value == CORRUPT
    assert letter.headers["principal"] == "tenant/acme"
    assert (letter.headers["source_topic"], letter.headers["source_partition"], letter.headers["source_offset"]) == (
        TRACES_TOPIC,
        "0",
        "6789",
    )
    assert letter.headers["reason"] == "undecodable"
    assert letter.headers["error"]


@pytest.mark.parametrize(
    "headers, reason",
    [
        ({}, "content"),
        (HEADERS | {"content": "otlp_json"}, "content"),
        (HEADERS | {"principal": "acme"}, "principal"),
        (HEADERS | {"principal": "tenant/a b"}, "principal"),
        (HEADERS | {"received_ns": "soon"}, "received_ns"),
        (HEADERS | {"received_ns": "5"}, "received_ns"),
        (HEADERS | {"received_ns": "9" * 30}, "received_ns"),
    ],
)
def test_a_record_without_valid_headers_becomes_a_dead_letter(store: Store, headers: dict[str, str], reason: str) -> None:
    log = MemoryReadLog()
    log.append(TRACES_TOPIC, headers, trace_body(1))
    log.append(TRACES_TOPIC, HEADERS, trace_body(2))
    with loading(log, store) as loader:
        assert loader.step().dead_letters == 1
    assert [letter.headers["reason"] for letter in letters(log)] == [reason]
    assert spans(store) == 1


def test_a_collectors_topic_takes_its_sender_from_the_settings_and_its_receipt_from_the_log(store: Store) -> None:
    log = MemoryReadLog()
    settings = Settings(topic=(TopicSettings(name="from_collector", signal="traces", principal="tenant/acme"),))
    log.append("from_collector", {"principal": "platform"}, trace_body(1))
    log.records["from_collector"].append(Record("from_collector", 0, 1, {}, trace_body(2), appended_ns=RECEIVED_NS - 7))
    with loading(log, store, settings) as loader:
        assert loader.step().dead_letters == 0
    assert store.query("SELECT principal, received_ns FROM spans ORDER BY trace_id").rows == (
        ("tenant/acme", RECEIVED_NS + 5),
        ("tenant/acme", RECEIVED_NS - 7),
    )


def test_a_body_that_only_the_engine_refuses_is_written_again_and_stored(store: Store) -> None:
    log = MemoryReadLog()
    twice = field(9, field(1, b"k") + field(2, field(1, b"text") + b"\x18\x07"))
    log.append(TRACES_TOPIC, HEADERS, body_of_span(raw_span(1, twice)))
    log.append(TRACES_TOPIC, HEADERS, body_of_span(raw_span(2, b"\x28\x05")))
    with loading(log, store) as loader:
        assert loader.step().dead_letters == 0
    assert [row[0] for row in store.query("SELECT attributes FROM spans FINAL ORDER BY trace_id").rows] == [{"k": "7"}, {}]


def test_a_run_of_bad_messages_stops_the_loader_with_nothing_committed(store: Store) -> None:
    log = MemoryReadLog()
    settings = Settings(loader=LoaderSettings(dead_letter_run_max=5))
    for number in range(20):
        log.append(TRACES_TOPIC, HEADERS, CORRUPT if number < 6 else trace_body(number))
    with loading(log, store, settings) as loader, pytest.raises(TooManyDeadLetters, match=r"6 messages in a row.*offset 5") as stopped:
        loader.step()
    assert stopped.value.exit_code == 4
    assert not log.commits
    assert not letters(log)


def test_as_many_bad_messages_in_a_row_as_are_allowed_do_not_stop_it(store: Store) -> None:
    log = MemoryReadLog()
    settings = Settings(loader=LoaderSettings(dead_letter_run_max=5))
    for number in range(12):
        log.append(TRACES_TOPIC, HEADERS, trace_body(number) if number % 6 == 5 else CORRUPT)
    with loading(
        log, store, settings.model_copy(update={"loader": LoaderSettings(dead_letter_run_max=5, dead_letter_ratio_max=1)})
    ) as loader:
        assert loader.step().dead_letters == 10


def test_too_large_a_share_of_bad_messages_stops_it_over_several_batches(store: Store) -> None:
    log = MemoryReadLog(poll_records_max=10)
    settings = Settings(loader=LoaderSettings(dead_letter_run_max=5, dead_letter_ratio_max=0.3, batch_spans=5))
    for number in range(40):
        log.append(TRACES_TOPIC, HEADERS, CORRUPT if number >= 10 and number % 2 else trace_body(number))
    with loading(log, store, settings) as loader:
        done = [loader.step().dead_letters, loader.step().dead_letters]
        with pytest.raises(TooManyDeadLetters, match="10 of the newest 30 messages"):
            loader.step()
    assert done == [0, 5]
    assert log.commits == {TRACES: 20}


def test_an_outage_of_the_store_commits_nothing_writes_no_dead_letter_and_is_tried_again(store: Store) -> None:
    log, sleeps, left = MemoryReadLog(), list[float](), [4]
    for number in range(5):
        log.append(TRACES_TOPIC, HEADERS, trace_body(number))
    stop = threading.Event()

    def fail() -> None:
        assert not log.commits
        if left[0]:
            left[0] -= 1
            raise StoreDown("store: disk full")
        stop.set()

    with loading(log, FailingStore(store, fail), sleeps=sleeps) as loader:
        loader.run(stop)
        assert (loader.counters.outages, loader.counters.outage) == (1, "")
    assert sleeps == [0.1, 0.2, 0.4, 0.8]
    assert spans(store) == 5
    assert log.commits == {TRACES: 5}
    assert not letters(log)


def test_an_outage_ends_the_loader_after_a_bounded_number_of_attempts(store: Store) -> None:
    log, sleeps = MemoryReadLog(), list[float]()
    log.append(TRACES_TOPIC, HEADERS, trace_body(1))

    def fail() -> None:
        raise StoreDown("store: connection lost")

    with loading(log, FailingStore(store, fail), sleeps=sleeps) as loader, pytest.raises(StoreDown):
        loader.run(threading.Event())
    assert len(sleeps) == OUTAGE_ATTEMPTS_MAX - 1
    assert max(sleeps) == 5.0
    assert not log.commits


@pytest.mark.parametrize("down", ["poll", "commit", "rewind"])
def test_a_log_that_fails_at_any_call_loses_no_message(store: Store, down: str) -> None:
    failures = [3]

    def before(call: str) -> None:
        if call == down and failures[0]:
            failures[0] -= 1
            raise LogUnavailable(f"{call} failed")

    log = MemoryReadLog(before=before, poll_records_max=2)
    for number in range(6):
        log.append(TRACES_TOPIC, HEADERS, trace_body(number))
    store_failures = [1]

    def fail() -> None:
        if store_failures[0]:
            store_failures[0] -= 1
            raise StoreDown("store: once")

    with loading(log, FailingStore(store, fail)) as loader:
        for _ in range(12):
            try:
                loader.step()
            except (LogDown, StoreDown):
                continue
    assert failures == [0]
    assert spans(store) == 6
    assert log.commits == {TRACES: 6}


def test_a_full_dead_letter_topic_is_an_outage(store: Store) -> None:
    def before(call: str) -> None:
        if call == "append" and armed:
            raise LogFull("disk full")

    armed: list[bool] = []
    log = MemoryReadLog(before=before)
    log.append(TRACES_TOPIC, HEADERS, CORRUPT)
    armed.append(True)
    with loading(log, store) as loader:
        with pytest.raises(LogDown):
            loader.step()
        assert not log.commits
        armed.clear()
        assert loader.step().dead_letters == 1
    assert log.commits == {TRACES: 1}


def test_batches_end_at_the_limits_of_bytes_and_spans(store: Store) -> None:
    log = MemoryReadLog(poll_records_max=7)
    for number in range(40):
        log.append(TRACES_TOPIC, HEADERS, trace_body(number, spans=10))
    with loading(log, store, Settings(loader=LoaderSettings(batch_spans=100))) as loader:
        assert loader.step().messages == 14
    log.rewind()
    with loading(log, store, Settings(loader=LoaderSettings(batch_bytes=1024))) as loader:
        assert loader.step().body_bytes <= 1024 + len(trace_body(1, spans=10))


def test_the_inserts_of_one_batch_stay_within_its_limits(store: Store) -> None:
    sizes: list[int] = []

    class Measuring(FailingStore):
        def insert(self, table: str, data: bytes, form: str, settings: Mapping[str, int | str] | None = None) -> None:
            sizes.append(len(data))
            super().insert(table, data, form, settings)

        def another(self) -> "Store":
            return Measuring(Store.another(self), lambda: None)

    log = MemoryReadLog()
    for number in range(50):
        log.append(TRACES_TOPIC, HEADERS, trace_body(number, spans=100))
    with loading(log, Measuring(store, lambda: None), Settings(loader=LoaderSettings(batch_spans=1000))) as loader:
        loader.step()
    assert len(sizes) == 5
    assert spans(store) == 5_000


def test_every_insert_states_its_settings(store: Store) -> None:
    seen: list[str] = []

    class Client:
        def command(self, sql: str) -> None:
            seen.append(sql)

    log = MemoryReadLog()
    log.append(TRACES_TOPIC, HEADERS, trace_body(1))
    with loading(log, Store(store._settings, Client(), True)) as loader:  # type: ignore[arg-type]
        loader.step()
    (insert,) = seen
    for stated in (
        "async_insert = 0",
        "optimize_on_insert = 0",
        "distributed_foreground_insert = 1",
        "insert_quorum = 'auto'",
        "materialized_views_ignore_errors = 0",
        "format_schema_source = 'string'",
        "FORMAT Protobuf",
    ):
        assert stated in insert
    assert "insert_deduplication_token" not in insert


def test_dead_letters_are_listed_once_and_go_back_to_their_topic_with_their_own_headers(store: Store) -> None:
    log = MemoryReadLog()
    log.append(TRACES_TOPIC, HEADERS, CORRUPT)
    log.append(TRACES_TOPIC, {}, trace_body(1))
    with loading(log, store) as loader:
        loader.step()
    for record in list(letters(log)):
        log.append(DEAD_LETTERS_TOPIC, record.headers, record.value)  # as a kill before the commit leaves it
    kept = MemoryReadLog(records=log.records, topics=frozenset({DEAD_LETTERS_TOPIC}))
    found = list(dead_letter.entries(kept))
    assert [(letter.source, letter.source_offset, letter.reason) for letter in found] == [
        (TRACES, 0, "undecodable"),
        (TRACES, 1, "content"),
    ]
    kept.rewind()
    target = MemoryReadLog()
    assert dead_letter.replay(dead_letter.entries(kept, reason="undecodable"), target) == 1
    (again,) = target.records[TRACES_TOPIC]
    assert (again.headers, again.value) == (HEADERS, CORRUPT)
