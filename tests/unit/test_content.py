"""Prompts and completions do not pass the edge."""

from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.content import content_keys
from collectors.edge import Accepted, accept
from tests.otlp_bodies import LIMITS, taken, trace_request

SECRET = "the user's words"
CONTENT_KEYS = [
    "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions", "gen_ai.prompt",
    "gen_ai.prompt.0.content", "gen_ai.completion.1.content", "llm.prompts", "llm.completions.0", "llm.input_messages.0.message.content",
    "llm.output_messages.12.message.content", "input.value", "output.value", "traceloop.entity.input", "traceloop.entity.output",
    "langfuse.trace.input", "ai.prompt.messages",
    "llm.openai.messages", "llm.openai.choices", "llm.openai.stringified_raw_response", "messages", "gen_ai.tool.call.arguments",
]  # fmt: skip
KEPT_KEYS = [
    "gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens", "gen_ai.request.model", "input.mime_type", "message", "content",
    "exception.message", "error.message", "llm.token_count.prompt", "gen_ai.tool.name", "gen_ai.prompts_seen", "messages.count",
    "traceloop.entity.name", "llm.prompt", "http.route", "ai.response.finishReason", "langfuse.trace.name",
]  # fmt: skip


@pytest.mark.parametrize("key", CONTENT_KEYS)
def test_content_is_dropped_from_spans_events_links_scopes_and_resources(key: str) -> None:
    request = trace_request(2, kept="yes")
    resource_spans = request.resource_spans[0]
    span = resource_spans.scope_spans[0].spans[1]
    holders = [span, span.events.add(name="e"), span.links.add(), resource_spans.scope_spans[0].scope, resource_spans.resource]
    for holder in holders:
        holder.attributes.add(key=key).value.string_value = SECRET
    answer = taken(request.SerializeToString())
    assert answer.dropped == 5
    assert SECRET.encode() not in answer.value
    left = ExportTraceServiceRequest.FromString(answer.value)
    for holder in holders:
        del holder.attributes[len(holder.attributes) - 1]
    assert left == request


@pytest.mark.parametrize("key", KEPT_KEYS)
def test_what_only_looks_like_content_keeps_its_bytes(key: str) -> None:
    body = trace_request(2, **{key: "gen_ai.input.messages /v1/messages"}).SerializeToString()
    assert taken(body) == Accepted(body, 2, 0)


def test_text_of_genai_message_events_is_dropped_and_an_error_text_is_not() -> None:
    request = trace_request(1)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.events.add(name="gen_ai.user.message").attributes.add(key="content").value.string_value = SECRET
    span.events.add(name="gen_ai.choice").attributes.add(key="message").value.string_value = SECRET
    span.events.add(name="abort").attributes.add(key="message").value.string_value = "Client disconnected"
    answer = taken(request.SerializeToString())
    assert answer.dropped == 2
    assert SECRET.encode() not in answer.value
    assert b"Client disconnected" in answer.value


def test_dropping_keeps_bad_utf8_unknown_fields_and_presence() -> None:
    request = trace_request(1, note="good")
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="zero").value.int_value = 0
    span.attributes.add(key="none")
    before = request.SerializeToString() + b"\xfa\x3e\x03abc"
    span.attributes.add(key="messages").value.string_value = SECRET
    body = request.SerializeToString() + b"\xfa\x3e\x03abc"
    answer = taken(body.replace(b"good", b"g\xff\xfed"))
    assert answer == Accepted(before.replace(b"good", b"g\xff\xfed"), 1, 1)


def test_content_stays_if_the_operator_says_so() -> None:
    body = trace_request(1, **{"gen_ai.input.messages": SECRET}).SerializeToString()
    assert accept("traces", body, "protobuf", LIMITS, None) == Accepted(body, 1, 0)


def test_no_capture_keeps_a_prompt_or_an_answer(shared_data: Path) -> None:
    seen = 0
    for path in sorted(shared_data.glob("otlp/*/*traces.binpb")):
        answer = taken(path.read_bytes())
        seen += answer.dropped
        assert b"one two three" not in answer.value, path
        assert b'"role"' not in answer.value, path
    assert seen > 20


def test_every_key_of_the_list_has_a_reason_and_is_dropped() -> None:
    for key in content_keys():
        assert len(key.why) > 10
        event = key.event + "x" if key.event else "any event"
        request = trace_request(1)
        attribute = request.resource_spans[0].scope_spans[0].spans[0].events.add(name=event).attributes.add()
        attribute.key = key.key.replace("*", "openai")
        assert taken(request.SerializeToString()).dropped == 1, key.key
