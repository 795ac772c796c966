import random
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from pipeline.errors import BadData
from pipeline.loading.envelope import Arrival, insert, varint, wrap
from pipeline.loading.inserter import Inserter
from pipeline.store.client import Store
from schemas.log import Record
from tests.conftest import empty
from tests.ingest import RECEIVED_NS, ingest
from tests.oracle.otlp_spans import DAY_NS, Expected, expected_spans, same_text
from tests.trace_bodies import START_NS, body_of_span, field, raw_span, trace_body

HOUR_NS = 3_600_000_000_000
FEW = settings(max_examples=6, phases=[Phase.generate], deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

# Of one key twice, attributes[key] is the first, as everywhere in SQL; a Python dict would show the last.
COLUMNS = """
WITH
    attributes -> arrayDistinct(mapKeys(attributes)) AS keys,
    attributes -> mapFromArrays(keys(attributes), arrayMap(k -> attributes[k], keys(attributes))) AS by_key
SELECT
    trace_id, span_id, parent_span_id, span_flags, name, toString(kind) AS kind, toString(status_code) AS status_code, status_message,
    toUnixTimestamp64Nano(started_at) AS started_ns, duration_ns, scope_name,
    by_key(resource) AS resource, by_key(attributes) AS attributes,
    arrayMap(e -> (toUnixTimestamp64Nano(e.at), e.name, by_key(e.attributes)), events) AS events, links, defects, log_offset
FROM spans FINAL
"""


def stored_spans(store: Store) -> list[dict[str, Any]]:
    return store.query(COLUMNS).dicts()


def assert_same(stored: dict[str, Any], expected: Expected) -> None:
    for name in ("parent_span_id", "name", "kind", "status_code", "status_message", "started_ns", "duration_ns", "scope_name"):
        assert stored[name] == getattr(expected, name), name
    assert_same_texts(stored["attributes"], expected.attributes)
    assert_same_texts(stored["resource"], expected.resource)
    assert tuple(sorted(stored["defects"])) == expected.defects
    assert [tuple(link.values()) if isinstance(link, dict) else tuple(link) for link in stored["links"]] == list(expected.links)
    assert len(stored["events"]) == len(expected.events)
    for event, (at_ns, name, attributes) in zip(stored["events"], expected.events, strict=True):
        assert (event[0], event[1]) == (at_ns, name)
        assert_same_texts(event[2], attributes)


def assert_same_texts(stored: dict[str, str], expected: Sequence[tuple[str, str]]) -> None:
    assert stored.keys() == dict(expected).keys()
    for key, value in expected:
        assert same_text(stored[key], value), (key, stored[key], value)


def test_captures_of_real_software_become_the_spans_that_the_official_classes_read(store: Store, shared_data: Path) -> None:
    bodies = [path.read_bytes() for path in sorted(shared_data.glob("otlp/*/*traces.binpb"))]
    ingest(store, bodies)
    expected = {(one.trace_id, one.span_id): one for body in bodies for one in expected_spans(body, RECEIVED_NS)}
    stored = {(row["trace_id"], row["span_id"]): row for row in stored_spans(store)}
    assert len(expected) > 50
    assert stored.keys() == expected.keys()
    for identity, row in stored.items():
        assert_same(row, expected[identity])
    assert store.query("SELECT count() FROM rejected_spans").scalar() == 0


# What no decent SDK sends, and what some do.
words = st.one_of(
    st.sampled_from(
        [
            "",
            "a",
            "gen_ai.usage.input_tokens",
            "é" * 128,
            "é" * 129,
            "x" * 256,
            "x" * 255 + "é",
            "\0",
            "\ufffd",
            "🙂" * 70,
            '"\\/\n\x7f\u2028',
        ]
    ),
    st.text(max_size=12),
)
ids = st.one_of(st.binary(max_size=20), st.sampled_from([bytes(16), bytes(8), b"\1" * 16, b"\2" * 8, b"\3" * 17, b"\xff" * 16]))
times = st.one_of(
    st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1, RECEIVED_NS, RECEIVED_NS + HOUR_NS, RECEIVED_NS + HOUR_NS + 1]),
    st.sampled_from([RECEIVED_NS - 400 * DAY_NS, RECEIVED_NS - 400 * DAY_NS - 1]),
    st.integers(RECEIVED_NS - 2 * HOUR_NS, RECEIVED_NS),
)
scalars = st.one_of(
    st.builds(AnyValue),
    st.builds(AnyValue, string_value=words),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
    st.builds(AnyValue, double_value=st.floats()),
    st.builds(AnyValue, bytes_value=st.binary(max_size=5)),
)


def array(values: list[AnyValue]) -> AnyValue:
    found = AnyValue()
    found.array_value.SetInParent()
    found.array_value.values.extend(values)
    return found


def mapping(pairs: dict[str, AnyValue]) -> AnyValue:
    found = AnyValue()
    found.kvlist_value.SetInParent()
    for key, value in pairs.items():
        found.kvlist_value.values.add(key=key, value=value)
    return found


values = st.one_of(
    scalars,
    st.lists(st.one_of(scalars, st.lists(scalars, max_size=2).map(array)), max_size=3).map(array),
    st.dictionaries(words, st.one_of(scalars, st.dictionaries(words, scalars, max_size=1).map(mapping)), max_size=3).map(mapping),
)
pairs = st.lists(st.builds(KeyValue, key=words, value=values), max_size=5)
spans = st.builds(
    Span,
    trace_id=ids,
    span_id=ids,
    parent_span_id=ids,
    name=words,
    trace_state=words,
    kind=st.sampled_from([-(2**31), -1, 0, 1, 2, 3, 4, 5, 6, 2**31 - 1]),
    start_time_unix_nano=times,
    end_time_unix_nano=times,
    attributes=pairs,
    events=st.lists(st.builds(Span.Event, time_unix_nano=times, name=words, attributes=pairs), max_size=2),
    links=st.lists(st.builds(Span.Link, trace_id=ids, span_id=ids), max_size=3),
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    request = ExportTraceServiceRequest()
    for _ in range(draw(st.integers(0, 3))):
        block = request.resource_spans.add()
        block.resource.attributes.extend(draw(pairs))
        for _ in range(draw(st.integers(0, 3))):
            scope = block.scope_spans.add()
            scope.scope.name = draw(words)
            for span in draw(st.lists(spans, max_size=4)):
                span.status.MergeFromString(b"\x18" + varint(draw(st.sampled_from([0, 1, 2, 3, 2**64 - 1]))))
                span.status.message = draw(words) * 5
                scope.spans.append(span)
    return request.SerializeToString()


@FEW
@given(bodies=st.lists(requests(), min_size=1, max_size=6))
def test_each_span_of_any_request_lands_in_exactly_one_table_as_the_official_classes_read_it(store: Store, bodies: list[bytes]) -> None:
    empty(store)
    bodies = numbered(bodies)
    ingest(store, bodies)
    expected = {(offset, number): one for offset, body in enumerate(bodies) for number, one in enumerate(expected_spans(body, RECEIVED_NS))}
    rejected = store.query("SELECT log_offset, item_no, reason, name, start_raw, end_raw FROM rejected_spans FINAL").rows
    assert sorted(rejected) == [
        (*place, one.rejected, one.name, one.started_ns, one.ended_ns) for place, one in sorted(expected.items()) if one.rejected
    ]
    stored = {(row["log_offset"], row["span_flags"]): row for row in stored_spans(store)}
    for place, row in stored.items():
        assert_same(row, expected[place])
    accepted = {place: one for place, one in expected.items() if not one.rejected}
    assert {identity(place, one) for place, one in accepted.items()} == {identity(place, expected[place]) for place in stored}
    assert len({identity(place, one) for place, one in accepted.items()}) == len(stored)


def identity(place: tuple[int, int], span: Expected) -> tuple[object, ...]:
    """Spans of one identity are one span: what was received first is kept. A derived id belongs to the place in the log."""
    complete = span.trace_id is not None and span.span_id is not None
    return (span.started_ns // HOUR_NS, span.trace_id, span.span_id) if complete else place


def numbered(bodies: list[bytes]) -> list[bytes]:
    """The same requests with each span's number within its message in its flags."""
    found = []
    for body in bodies:
        request = ExportTraceServiceRequest.FromString(body)
        spans = [span for block in request.resource_spans for scope in block.scope_spans for span in scope.spans]
        for number, span in enumerate(spans):
            span.flags = number
        found.append(request.SerializeToString())
    return found


@FEW
@given(seed=st.integers(0, 2**32), body=requests())
def test_whatever_bytes_come_they_are_stored_or_refused_as_bad_data_and_never_lost(store: Store, seed: int, body: bytes) -> None:
    """Bytes that the official classes read are never refused, by way of the inserter's second chance."""
    empty(store)
    rnd = random.Random(seed)
    bodies = [damaged(rnd, body) for _ in range(5)]
    inserter = Inserter(store, 1, 33_554_432, 200_000, 400, 100)
    arrivals = [Arrival(Record("otlp_spans", 0, offset, {}, one), RECEIVED_NS, "platform", "") for offset, one in enumerate(bodies)]
    refused = {refusal.record.offset for refusal in inserter.store("traces", arrivals)}
    inserter.close()
    for offset, one in enumerate(bodies):
        try:
            ExportTraceServiceRequest.FromString(one)
        except ValueError:
            continue
        except Exception as error:
            assert type(error).__name__ == "DecodeError"
            continue
        assert offset not in refused
    try:
        ingest(store, [bodies[0]], first_offset=100)
    except BadData as error:
        assert error.reason == "undecodable"


def damaged(rnd: random.Random, body: bytes) -> bytes:
    out = bytearray(body)
    for _ in range(rnd.randrange(1, 4)):
        at = rnd.randrange(len(out) + 1)
        match rnd.randrange(4):
            case 0 if out:
                out[at % len(out)] = rnd.randrange(256)
            case 1:
                out[at:at] = rnd.randbytes(rnd.randrange(1, 4))
            case 2:
                del out[at : at + rnd.randrange(1, 4)]
            case _:
                out[at:at] = out[: rnd.randrange(20)]
    return bytes(out)


@FEW
@given(data=st.data())
def test_any_number_of_deliveries_in_any_order_and_cut_leaves_each_span_once(store: Store, data: st.DataObject) -> None:
    empty(store)
    bodies = [trace_body(number, spans=3) for number in range(6)]
    deliveries = data.draw(st.permutations([n for n in range(6) for _ in range(data.draw(st.integers(1, 3)))]))
    records = [Record("otlp_spans", 0, number, {}, body) for number, body in enumerate(bodies)]
    while deliveries:
        size = data.draw(st.integers(1, len(deliveries)))
        batch = [Arrival(records[number], RECEIVED_NS + number, "platform", "") for number in deliveries[:size]]
        insert(store, "traces", wrap(batch))
        deliveries = deliveries[size:]
    assert store.query(
        "SELECT count(), uniqExact(trace_id, span_id), sum(received_ns - {at:UInt64}) FROM spans FINAL", {"at": RECEIVED_NS}
    ).rows == ((18, 18, sum(range(6)) * 3),)
    assert store.query("SELECT sum(spans) FROM arrivals FINAL").scalar() == 18


def test_the_first_receipt_of_a_span_wins_whatever_comes_later(store: Store) -> None:
    ingest(store, [trace_body(1, name="second")], received_ns=RECEIVED_NS + 10, first_offset=1)
    ingest(store, [trace_body(1, name="first")], received_ns=RECEIVED_NS, first_offset=0)
    ingest(store, [trace_body(1, name="third")], received_ns=RECEIVED_NS + 20, first_offset=2)
    store.command("OPTIMIZE TABLE spans FINAL")
    assert store.query("SELECT name, log_offset FROM spans").rows == (("first", 0),)


def test_the_same_span_of_two_senders_is_two_rows(store: Store) -> None:
    ingest(store, [trace_body(1)], principal="platform")
    ingest(store, [trace_body(1)], principal="tenant/acme", first_offset=1)
    assert store.query("SELECT principal FROM spans FINAL ORDER BY principal").rows == (("platform",), ("tenant/acme",))


def test_spans_without_ids_stay_apart_and_keep_their_derived_ids_at_redelivery(store: Store) -> None:
    request = ExportTraceServiceRequest()
    for _ in range(2):
        scope = request.resource_spans.add().scope_spans.add()
        for name in ("a", "b"):
            scope.spans.add(name=name, start_time_unix_nano=START_NS, end_time_unix_nano=START_NS + 5)
    for _ in range(3):
        ingest(store, [request.SerializeToString()])
    rows = store.query("SELECT name, trace_id, span_id, defects FROM spans FINAL ORDER BY name").rows
    assert [row[0] for row in rows] == ["a", "a", "b", "b"]
    assert len({row[1] for row in rows}) == len({row[2] for row in rows}) == 4
    assert {tuple(row[3]) for row in rows} == {("derived_id",)}


def test_one_hostile_span_takes_none_of_its_neighbours_with_it(store: Store) -> None:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(512):
        scope.spans.add(
            trace_id=b"\1" * (17 if number == 77 else 16),
            span_id=(number + 1).to_bytes(8, "big"),
            name="x",
            start_time_unix_nano=2**64 - 1 if number == 99 else START_NS,
            end_time_unix_nano=START_NS + 1,
        )
    ingest(store, [request.SerializeToString()])
    assert store.query("SELECT count(), countIf(has(defects, 'derived_id')) FROM spans FINAL").rows == ((511, 1),)
    assert store.query("SELECT item_no, reason, start_raw FROM rejected_spans FINAL").rows == ((99, "start_out_of_range", 2**64 - 1),)


def test_text_that_is_not_utf8_is_repaired_in_names_keys_and_values(store: Store) -> None:
    span = raw_span(1, field(5, b"a\xff\xcd"), field(9, field(1, b"k\xff") + field(2, field(1, b"v\xc3"))))
    ingest(store, [body_of_span(span)])
    assert store.query("SELECT name, attributes FROM spans").rows == (("a\ufffd", {"k\ufffd": "v\ufffd"}),)


def test_days_of_four_hundred_days_in_one_request_are_stored(store: Store) -> None:
    """The monthly partitions of one block cannot reach the engine's limit, because times are bounded first."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for day in range(400):
        start = RECEIVED_NS - day * DAY_NS
        scope.spans.add(trace_id=b"\1" * 16, span_id=(day + 1).to_bytes(8, "big"), start_time_unix_nano=start, end_time_unix_nano=start)
    ingest(store, [request.SerializeToString()])
    assert store.query("SELECT count() FROM spans").scalar() == 400


def test_a_shorter_age_limit_of_the_settings_is_respected(store: Store) -> None:
    ingest(store, [trace_body(1)], max_age_days=1, received_ns=START_NS + 2 * DAY_NS)
    ingest(store, [trace_body(2)], max_age_days=3, received_ns=START_NS + 2 * DAY_NS, first_offset=1)
    assert store.query("SELECT log_offset FROM spans").rows == ((1,),)
    assert store.query("SELECT log_offset, reason FROM rejected_spans").rows == ((0, "start_out_of_range"),)


@pytest.mark.parametrize(
    "seconds, cells", [(10, [0]), (890, [0, 1]), (1800, [0, 1, 2]), (3600, [0, 1, 2, 3, 4]), (86_000, [0, 1, 2, 3, 4, 95])]
)
def test_arrivals_name_the_cells_that_the_spans_touch(store: Store, seconds: int, cells: list[int]) -> None:
    first_cell_s = RECEIVED_NS // 10**9 - 100_800
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(3):
        start = (first_cell_s + 100) * 10**9
        scope.spans.add(
            trace_id=b"\1" * 16, span_id=bytes([number + 1]) * 8, start_time_unix_nano=start, end_time_unix_nano=start + seconds * 10**9
        )
    ingest(store, [request.SerializeToString()])
    found = store.query("SELECT window_from, spans, log_offset FROM arrivals ORDER BY window_from").rows
    assert [(int(datetime.timestamp(row[0])) - first_cell_s) // 900 for row in found] == cells
    assert {row[1:] for row in found} == {(3, 0)}


def test_attributes_beyond_the_limits_are_cut_and_flagged(store: Store) -> None:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(2):
        span = scope.spans.add(
            trace_id=b"\1" * 16, span_id=bytes([number + 1]) * 8, start_time_unix_nano=START_NS, end_time_unix_nano=START_NS
        )
        for key in range(128 + number):
            span.attributes.add(key=f"k{key}").value.int_value = key
    ingest(store, [request.SerializeToString()])
    assert store.query("SELECT length(attributes), defects FROM spans ORDER BY span_id").rows == ((128, []), (128, ["cut"]))
