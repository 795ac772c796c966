"""Per-request records that come as OTLP log records: kept as spans; what is none is told to its sender."""

import json
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.edge import COUNTERS, Accepted, Edge, Limits
from schemas.counters import Counters
from schemas.keys import Keyring
from schemas.log import LogFull
from schemas.settings import ReceiveSettings
from tests.memory_log import MemoryLog
from tests.otlp_bodies import LIMITS, PLATFORM, refused, taken
from tests.records import DYNAMO, ENVOY, LITELLM, changed


def logs(*payloads: str, **resource: str) -> Any:
    """Each row as a string in the attribute `payload`, as Dynamo sends it."""
    request = ExportLogsServiceRequest()
    block = request.resource_logs.add()
    for key, value in resource.items():
        block.resource.attributes.add(key=key.replace("__", ".")).value.string_value = value
    scope = block.scope_logs.add()
    for payload in payloads:
        scope.log_records.add().attributes.add(key="payload").value.string_value = payload
    return request


def spans(answer: Accepted) -> list[Any]:
    found = [ExportTraceServiceRequest.FromString(value) for value in (answer.value, *answer.more)]
    return [span for request in found for block in request.resource_spans for scope in block.scope_spans for span in scope.spans]


def told(span: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}


def test_a_dynamo_row_becomes_spans_of_its_resource() -> None:
    answer = taken(logs(json.dumps(DYNAMO), service__name="dynamo-eu").SerializeToString(), "logs")
    assert (answer.items, answer.refused, answer.why) == (1, 0, "")
    assert [span.name for span in spans(answer)] == ["inference", "worker", "worker"]
    assert told(spans(answer)[0])["request.input_tokens"] == 4096
    blocks = ExportTraceServiceRequest.FromString(answer.value).resource_spans
    assert [told(block.resource) for block in blocks] == [
        {"service.name": "dynamo-eu"},
        {"service.name": "dynamo-eu", "service.instance.id": "1"},
        {"service.name": "dynamo-eu", "service.instance.id": "7"},
    ]


@pytest.mark.parametrize("place", ["body text", "body map", "attributes"])
def test_envoy_sends_its_access_log_in_several_ways(place: str) -> None:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    if place == "body text":
        record.body.string_value = json.dumps(ENVOY)
    else:
        target = record.attributes if place == "attributes" else record.body.kvlist_value.values
        for key, value in ENVOY.items():
            target.add(key=key).value.string_value = str(value)
    answer = taken(request.SerializeToString(), "logs")
    assert [span.name for span in spans(answer)] == ["request", "inference"]
    assert told(spans(answer)[1])["gen_ai.usage.input_tokens"] == "1536"


def test_what_is_no_record_is_told_and_not_kept() -> None:
    rows = [json.dumps(DYNAMO), "starting", "{broken", json.dumps(changed(DYNAMO, event_type="request_payload")), '{"level": "info"}']
    answer = taken(logs(*rows).SerializeToString(), "logs")
    assert (answer.items, answer.refused) == (1, 4)
    assert answer.why.startswith("4 log records are not kept: not a per-request record")


def test_an_older_schema_is_told_by_name() -> None:
    answer = taken(logs(json.dumps(changed(DYNAMO, schema="dynamo.agent.trace.v1"))).SerializeToString(), "logs")
    assert answer.items == 0
    assert "dynamo.agent.trace.v1" in answer.why


def test_the_trace_of_the_log_record_is_the_spans_trace() -> None:
    request = logs(json.dumps(DYNAMO))
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    record.trace_id, record.span_id = b"t" * 16, b"s" * 8
    found = spans(taken(request.SerializeToString(), "logs"))
    assert {span.trace_id for span in found} == {b"t" * 16}
    assert found[0].parent_span_id == b"s" * 8


def test_json_bodies_are_taken_too() -> None:
    attribute = {"key": "payload", "value": {"stringValue": json.dumps(DYNAMO)}}
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": "1", "attributes": [attribute]}]}]}]}
    assert taken(json.dumps(body).encode(), "logs", "json").items == 1


def test_junk_and_limits_are_as_for_spans() -> None:
    assert refused(b"\xff\xff", "logs").reason == "junk"
    body = logs(*["x"] * 11).SerializeToString()
    assert refused(body, "logs", limits=Limits(body_bytes=4096, items=10, elements=1000)).reason == "too_many_items"


def test_prompts_are_dropped() -> None:
    answer = taken(logs(json.dumps(LITELLM)).SerializeToString(), "logs")
    assert answer.items == 1
    assert b"SECRET" not in answer.value


def test_a_body_that_becomes_larger_is_several_records_of_the_log() -> None:
    rows = [json.dumps(changed(DYNAMO, request__request_id=f"d-{number}")) for number in range(40)]
    body = logs(*rows).SerializeToString()
    limits = Limits(body_bytes=len(body), items=1000, elements=100_000)
    answer = taken(body, "logs", limits=limits)
    assert answer.items == 40
    assert answer.more
    assert all(len(value) <= limits.body_bytes for value in (answer.value, *answer.more))
    assert len({span.trace_id for span in spans(answer)}) == 40
    assert LIMITS.body_bytes > limits.body_bytes


def edge(log: MemoryLog) -> tuple[Edge, Counters]:
    counters = Counters(COUNTERS)
    return Edge(ReceiveSettings(), log, Keyring(()), lambda: 1, counters, "http"), counters


def test_records_go_to_the_topic_of_spans() -> None:
    log = MemoryLog()
    receiver, counters = edge(log)
    answer = receiver.receive("logs", logs(json.dumps(DYNAMO), "x").SerializeToString(), "protobuf", PLATFORM)
    receiver.count("logs", answer)
    assert [(record.topic, record.headers["principal"]) for record in log.records] == [("otlp_spans", "platform")]
    assert counters.value("tokenpath_receiver_items_total", signal="logs") == 1
    assert counters.value("tokenpath_receiver_refused_items_total", signal="logs") == 1


def test_a_full_log_is_an_answer_to_come_again() -> None:
    def full() -> None:
        raise LogFull("disk")

    answer = edge(MemoryLog(full))[0].receive("logs", logs(json.dumps(DYNAMO)).SerializeToString(), "protobuf", PLATFORM)
    assert getattr(answer, "reason", "") == "log_full"
