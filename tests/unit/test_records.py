"""What each format's record is read as, and the traps: units, missing values, versions, ids."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.content import ContentFilter, content_keys
from collectors.records import FORMATS, call_of, format_of
from collectors.records.call import Call, NotACall, NotARecord
from collectors.records.fields import flat, time_ns
from collectors.records.spans import size_at_most, trace_request, trace_requests
from tests.records import DYNAMO, ENVOY, LITELLM, SGLANG, SPEND, changed

IS_CONTENT = ContentFilter(content_keys()).is_content
BEGIN_NS = 1_790_000_000_000_000_000
EXAMPLES = {"dynamo": DYNAMO, "sglang": SGLANG, "litellm": LITELLM, "envoy": ENVOY}


def read(row: dict[str, Any]) -> Call:
    return call_of(row, IS_CONTENT)


@pytest.mark.parametrize(("name", "row"), [*EXAMPLES.items(), ("litellm", SPEND)])
def test_formats_are_known_by_their_fields(name: str, row: dict[str, Any]) -> None:
    assert format_of(row) is FORMATS[name]
    assert read(row).format == name


def test_what_is_none_of_ours_is_refused_with_its_fields() -> None:
    with pytest.raises(NotARecord, match=r"no record of dynamo, sglang, litellm, envoy; its fields are level, msg"):
        read({"level": "info", "msg": "x"})


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (1790000000, BEGIN_NS),
        (1790000000.5, BEGIN_NS + 500_000_000),
        ("1790000000.000001", BEGIN_NS + 1_000),
        (1790000000123, BEGIN_NS + 123_000_000),
        (1790000000123456, BEGIN_NS + 123_456_000),
        (1790000000123456789, BEGIN_NS + 123_456_789),
        ("2026-09-21T14:13:20Z", BEGIN_NS),
        ("2026-09-21T16:13:20.25+02:00", BEGIN_NS + 250_000_000),
        ("2026-09-21 14:13:20.123", BEGIN_NS + 123_000_000),  # a table's time without a zone is UTC
        ("2026-09-21 14:13:20.123+00", BEGIN_NS + 123_000_000),
        ("-", None),
        ("", None),
        (None, None),
        (0, None),
        (-1, None),
        (90_000_000_000, None),  # beyond what 64 bits of ns hold
        ("1969-12-31T23:59:59Z", None),
        ("9999-12-31T23:59:59Z", None),
        (True, None),
        ("1e400", None),
        ({"a": 1}, None),
    ],
)
def test_times_in_every_unit(value: Any, ns: int | None) -> None:
    assert time_ns({"at": value}, "at") == ns


def test_missing_values_are_absent_and_zero_is_a_value() -> None:
    row = {"a": None, "b": "", "c": "-", "d": "null", "e": 0, "f": False, "g": float("nan"), "h": [], "i": {}, "j": {"k": 0.0}}
    assert flat(row, lambda _: False) == {"e": 0, "f": False, "j.k": 0.0}


def test_integers_beyond_64_bits_stay_exact() -> None:
    assert flat({"hash": 18446744073709551557, "list": [18446744073709551557]}, lambda _: False) == {
        "hash": "18446744073709551557",
        "list": "[18446744073709551557]",
    }


def test_a_record_is_not_larger_than_the_store_keeps() -> None:
    told = flat({f"k{number}": "x" * 40_000 for number in range(300)}, lambda _: False)
    assert len(told) == 129  # one more than is kept, so that it is flagged
    assert max(len(str(value)) for value in told.values()) == 16_385


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (changed(DYNAMO, schema="dynamo.agent.trace.v1"), "schema dynamo.agent.trace.v1: only dynamo.request.trace.v1 is read"),
        (changed(DYNAMO, request__request_id=...), "without request.request_id"),
        (changed(DYNAMO, request__request_received_ms=..., request__total_time_ms=...), "when it began is not told"),
        (changed(DYNAMO, request__total_time_ms=..., event_time_unix_ms=...), "when it ended is not told"),
        (changed(SGLANG, request_received_ts=...), "only with --enable-metrics"),
        (changed(SGLANG, request_finished_ts=..., e2e_latency=...), "when it ended is not told"),
        (changed(SGLANG, id=..., request_parameters="{}"), "whose record it is is not told"),
        (changed(LITELLM, startTime="yesterday"), "startTime is 'yesterday', no time"),
        (changed(LITELLM, endTime=None), "endTime is None, no time"),
        (changed(LITELLM, id=..., litellm_call_id=...), "which call it is is not told"),
        ({**ENVOY, "start_time": "-"}, "start_time is '-', no time"),
        ({"start_time": "2026-09-21T14:13:20Z", "duration": 1, "response_code": 200}, r"no gen_ai\.\* field"),
    ],
)
def test_what_cannot_be_read_is_told_to_the_person_who_can_mend_it(row: dict[str, Any], message: str) -> None:
    with pytest.raises(NotARecord, match=message):
        read(row)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (changed(DYNAMO, event_type="request_payload"), "request_payload"),
        (changed(DYNAMO, event_type="tool_call"), "tool_call"),
        (changed(SGLANG, id="HEALTH_CHECK_1"), "health check"),
        ({**ENVOY, "gen_ai.request.model": "-", "gen_ai.response.model": "-"}, "no model asked"),
    ],
)
def test_rows_that_tell_of_no_call_are_left_out_by_name(row: dict[str, Any], what: str) -> None:
    with pytest.raises(NotACall, match=what):
        read(row)


def test_dynamo_rows_may_be_wrapped_and_may_lack_fields() -> None:
    assert read({"timestamp": 5, "event": DYNAMO}) == read(DYNAMO)
    few = read(changed(DYNAMO, request__ttft_ms=..., request__worker=..., request__request_received_ms=...))
    assert (few.started_ns, few.ended_ns, few.legs) == (BEGIN_NS, BEGIN_NS + 2_100_000_000, ())
    assert "tokenpath.record.decode_seconds" not in few.attributes


def test_foreign_cost_stands_apart() -> None:
    for row, source in ((LITELLM, "litellm/response_cost"), (SPEND, "litellm/spend")):
        told = read(row).attributes
        assert (told["reported_cost"], told["reported_cost.source"]) == ("0.00184", source)


def test_a_price_list_is_no_fact_of_a_call() -> None:
    assert not [key for key in read(LITELLM).attributes if key.startswith("model_map_information")]


SPEND_WITH_CONTENT = changed(SPEND, messages={"m": "SECRET"}, response="SECRET", proxy_server_request="SECRET")


@pytest.mark.parametrize("row", [LITELLM, SGLANG, SPEND_WITH_CONTENT])
def test_content_is_in_no_attribute(row: dict[str, Any]) -> None:
    assert "SECRET" not in json.dumps(dict(read(row).attributes))
    assert "SECRET" in json.dumps(dict(call_of(row, lambda _: False).attributes))  # keep_content


@pytest.mark.parametrize("row", [*EXAMPLES.values(), SPEND])
def test_ids_are_those_of_the_record(row: dict[str, Any]) -> None:
    once, again = (trace_request([read(row)], {}).SerializeToString() for _ in range(2))
    assert once == again
    spans = [span for block in ExportTraceServiceRequest.FromString(once).resource_spans for span in block.scope_spans[0].spans]
    assert len({span.span_id for span in spans}) == len(spans)
    assert all(len(span.span_id) == 8 and any(span.span_id) and len(span.trace_id) == 16 for span in spans)


def test_other_calls_have_other_ids() -> None:
    rows = [
        DYNAMO, changed(DYNAMO, request__request_id="d-89"), SGLANG, changed(SGLANG, id="x"), LITELLM, changed(LITELLM, id="x"),
        changed(LITELLM, litellm_call_id="x"), ENVOY, {**ENVOY, "x-request-id": "gw-89"},
        {**ENVOY, "start_time": "2026-09-21T14:13:20.001Z"},
    ]  # fmt: skip
    traces = {bytes(trace_request([read(row)], {}).resource_spans[0].scope_spans[0].spans[0].trace_id) for row in rows}
    assert len(traces) == len(rows)


@pytest.mark.parametrize("row", [*EXAMPLES.values(), changed(LITELLM, end_user="ü" * 500)])
def test_sizes_are_never_underestimated(row: dict[str, Any]) -> None:
    call = read(row)
    size = len(trace_request([call], {"service.name": "x"}).SerializeToString())
    assert size <= size_at_most(call, {"service.name": "x"}) <= 3 * size
    assert len(list(trace_requests([(call, {}), (call, {})], size))) == 2


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*EXAMPLES.values(), SPEND]), st.data())
def test_hostile_values_are_read_or_refused(row: dict[str, Any], data: st.DataObject) -> None:
    """Whatever stands in a field: a call that can be written down, or one of the two refusals; never anything else."""
    broken = dict(row)
    for name in data.draw(st.lists(st.sampled_from(sorted(row)), max_size=4)):
        broken[name] = data.draw(JSON_VALUES)
    if "request" in broken and isinstance(broken["request"], dict):
        broken["request"] = {**broken["request"], data.draw(st.sampled_from(sorted(DYNAMO["request"]))): data.draw(JSON_VALUES)}
    try:
        call = read(broken)
    except (NotARecord, NotACall):
        return
    assert trace_request([call], {}).SerializeToString()
