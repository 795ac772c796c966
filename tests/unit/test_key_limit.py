"""A sender with ever new attribute keys: bounded, told, and nobody else's business."""

import logging
import tracemalloc

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.edge import COUNTERS, Accepted, Edge
from collectors.key_limit import HOUR_NS, KeyLimit, drop_keys, figure_keys
from schemas.counters import Counters
from schemas.keys import Identity, Keyring
from schemas.settings import ReceiveSettings
from tests.memory_log import MemoryLog
from tests.otlp_bodies import trace_request

NOW_NS = 496_000 * HOUR_NS
ACME, OTHER = Identity("tenant/acme", "acme-1"), Identity("tenant/other", "other-1")


def some(first: int, count: int) -> set[bytes]:
    return {f"k{number}".encode() for number in range(first, first + count)}


def test_keys_count_once_an_hour_and_for_their_sender_only() -> None:
    limit = KeyLimit(100)
    assert limit.beyond(ACME, some(0, 60), NOW_NS) == frozenset()
    assert limit.beyond(ACME, some(0, 60), NOW_NS + 1) == frozenset()
    assert len(limit.beyond(ACME, some(50, 100), NOW_NS + 2)) == 50
    assert limit.beyond(ACME, some(0, 60), NOW_NS + 3) == frozenset()
    assert limit.beyond(OTHER, some(1_000, 100), NOW_NS + 4) == frozenset()
    assert limit.beyond(ACME, some(500, 100), NOW_NS + HOUR_NS) == frozenset()


def test_a_hundred_thousand_keys_take_no_more_memory_than_the_limit() -> None:
    limit = KeyLimit(1_000)
    tracemalloc.start()
    dropped = sum(len(limit.beyond(ACME, {b"x" * 10_000 + key for key in some(first, 100)}, NOW_NS)) for first in range(0, 50_000, 100))
    dropped += sum(len(limit.beyond(ACME, {key + b"x" * 10_000 for key in some(first, 100)}, NOW_NS)) for first in range(0, 50_000, 100))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The first half differs only where the store does not look: one key.
    assert dropped == 50_000 - 999
    assert kept < 1_000_000


def test_keys_that_figures_are_made_of_are_taken_whatever_else_was_sent() -> None:
    limit = KeyLimit(100, figure_keys())
    assert len(limit.beyond(ACME, some(0, 1_000), NOW_NS)) == 900
    needed = {b"gen_ai.usage.input_tokens", b"gen_ai.usage.output_tokens", b"tokenpath.tenant.id", b"gen_ai.request.model"}
    assert limit.beyond(ACME, needed | {b"mine"}, NOW_NS) == {b"mine"}


def test_a_sender_over_its_limit_is_told_once_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    limit = KeyLimit(100)
    with caplog.at_level(logging.WARNING):
        for moment in (NOW_NS, NOW_NS + 1, NOW_NS + HOUR_NS):
            limit.beyond(ACME, some(0, 101), moment)
    assert len(caplog.records) == 2
    assert "tenant/acme" in caplog.text
    assert "max_attribute_keys_per_hour" in caplog.text


def test_doomed_keys_go_from_every_place_and_everything_else_stays() -> None:
    request = trace_request(2, kept="yes")
    block = request.resource_spans[0]
    span = block.scope_spans[0].spans[1]
    block.scope_spans[0].scope.SetInParent()
    holders = [span, span.events.add(name="e"), span.links.add(), block.scope_spans[0].scope, block.resource]
    expected = ExportTraceServiceRequest()
    expected.CopyFrom(request)
    for holder in holders:
        holder.attributes.add(key="doomed").value.int_value = 1
    inside = span.attributes.add(key="list").value.kvlist_value.values
    inside.add(key="doomed")  # inside of a value a key is text
    expected.resource_spans[0].scope_spans[0].spans[1].attributes.add(key="list").value.kvlist_value.values.add(key="doomed")
    value, dropped = drop_keys("traces", request.SerializeToString(), {b"doomed"})
    assert dropped == 5
    assert ExportTraceServiceRequest.FromString(value) == expected


def test_over_the_limit_the_spans_are_kept_and_the_attributes_counted() -> None:
    log, counters = MemoryLog(), Counters(COUNTERS)
    edge = Edge(ReceiveSettings(max_attribute_keys_per_hour=100), log, Keyring(()), lambda: NOW_NS, counters, "grpc")
    for number in range(20):
        body = trace_request(
            1, **{f"made_up_{number}_{key}": "v" for key in range(10)}, **{"gen_ai.request.model": "m"}
        ).SerializeToString()
        answer = edge.receive("traces", body, "protobuf", ACME)
        edge.count("traces", answer)
        assert isinstance(answer, Accepted)
        assert answer.items == 1
    untouched = trace_request(1, **{f"other_{key}": "v" for key in range(10)}).SerializeToString()
    assert edge.receive("traces", untouched, "protobuf", OTHER) == Accepted(untouched, 1, 0)
    spans = [ExportTraceServiceRequest.FromString(record.value).resource_spans[0].scope_spans[0].spans[0] for record in log.records[:20]]
    assert sum(len(span.attributes) - 1 for span in spans) == 100
    assert {attribute.key for attribute in spans[-1].attributes} == {"gen_ai.request.model"}
    assert counters.value("tokenpath_receiver_keys_over_limit_total", signal="traces") == 100


def test_metrics_count_too() -> None:
    log = MemoryLog()
    edge = Edge(ReceiveSettings(max_attribute_keys_per_hour=100), log, Keyring(()), lambda: NOW_NS, Counters(COUNTERS), "grpc")
    request = ExportMetricsServiceRequest()
    points = request.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge.data_points
    for number in range(150):
        points.add(as_int=number).attributes.add(key=f"k{number}").value.string_value = "v"
    answer = edge.receive("metrics", request.SerializeToString(), "protobuf", ACME)
    assert isinstance(answer, Accepted)
    assert (answer.items, answer.over_limit) == (150, 50)
