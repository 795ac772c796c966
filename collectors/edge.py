"""The edge: what both receivers do with a body. `accept` decides and is pure; `Edge` adds the log, the gate and the counts.

A body is kept as the bytes that came, after one validating parse; only JSON, and bodies with prompts in them, are re-encoded.
Of logs only per-request records are kept; they become spans.
"""

import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse

from collectors import wire
from collectors.content import ContentFilter, content_keys
from collectors.key_limit import KeyLimit, drop_keys, figure_keys
from collectors.otlp_json import NotOtlpJson, to_protobuf
from collectors.records.otlp_logs import converted
from collectors.wire import Signal
from schemas.counters import Counters
from schemas.keys import Identity, KeyRefused, Keyring
from schemas.log import METRICS_TOPIC, TRACES_TOPIC, AppendLog, LogFull, LogUnavailable, RecordTooLarge
from schemas.settings import ReceiveSettings

Clock = Callable[[], int]  # unix ns
Beyond = Callable[[Set[bytes]], Set[bytes]]  # of attribute keys those that are too many for their sender
Content = Literal["protobuf", "json"]
Transport = Literal["grpc", "http"]
Reason = Literal[
    "junk", "too_large", "too_many_items", "media_type", "incomplete",  # the sender's; sending it again is no use
    "no_key", "unknown_key", "not_allowed",
    "busy", "log_full", "log_unavailable",  # ours; sending it again is right
]  # fmt: skip

TOPICS: dict[Signal, str] = {"traces": TRACES_TOPIC, "metrics": METRICS_TOPIC, "logs": TRACES_TOPIC}
# A span with 8 attributes, events, links and the like of its own is plenty as an average over a body that is full of spans.
ELEMENTS_PER_ITEM = 8
RETRY_AFTER_SECONDS: dict[Reason, int] = {"busy": 1, "log_full": 5, "log_unavailable": 10}

COUNTERS = {
    "tokenpath_receiver_bodies_total": "Requests by transport, signal and result (accepted, empty, or why refused)",
    "tokenpath_receiver_bytes_total": "Bytes of accepted OTLP protobuf",
    "tokenpath_receiver_items_total": "Accepted spans, data points and per-request records",
    "tokenpath_receiver_refused_items_total": "Log records that are no per-request record, told to their sender as partial success",
    "tokenpath_receiver_content_dropped_total": "Attributes with prompts or completions that were dropped",
    "tokenpath_receiver_keys_over_limit_total": "Attributes that were dropped because their sender used too many different keys",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """`body_bytes` is decompressed; `items` are spans, data points or log records; `elements` are all repeated messages of a body."""

    body_bytes: int
    items: int
    elements: int

    @classmethod
    def of(cls, settings: ReceiveSettings) -> "Limits":
        return cls(settings.max_body_bytes, settings.max_spans_per_body, settings.max_spans_per_body * ELEMENTS_PER_ITEM)


@dataclass(frozen=True, slots=True)
class Accepted:
    """`value` is what the log gets, unless `items` is 0: then there is nothing to store and the answer is OK.
    `dropped` attributes were content, `over_limit` had keys beyond what their sender may use."""

    value: bytes
    items: int
    dropped: int
    over_limit: int = 0
    more: tuple[bytes, ...] = ()  # what the log gets after `value`, where one body became several
    refused: int = 0  # log records that are not kept; the sender is told how many, and `why`, in a partial success
    why: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """`retry_after_s` is None where sending the same again cannot succeed."""

    reason: Reason
    message: str
    retry_after_s: int | None = None


def accept(
    signal: Signal,
    body: bytes,
    content: Content,
    limits: Limits,
    content_filter: ContentFilter | None,
    beyond: Beyond = lambda keys: frozenset(),
) -> Accepted | Refused:
    """Decides about one decompressed body. Cheap limits come before anything is decoded. Pure, but for `beyond`, which says
    which of the body's attribute keys are too many for its sender."""
    if len(body) > limits.body_bytes:
        return too_large(limits)
    if content == "json":
        # Every message of the body opens a brace.
        if len(body) > 2 * limits.elements and (braces := body.count(b"{")) > limits.elements:
            return Refused("too_many_items", f"{braces} JSON objects in one body, at most {limits.elements} are taken")
        try:
            body = to_protobuf(signal, body)
        except NotOtlpJson as error:
            return Refused("junk", f"not OTLP/JSON {signal}: {_printable(str(error))}")
        if len(body) > limits.body_bytes:  # a list of small numbers is longer in protobuf
            return too_large(limits)
    try:
        items = wire.count_items(signal, body)
        if items > limits.items:
            return Refused("too_many_items", f"{items} items in one body, at most {limits.items} are taken")
        # An element takes two bytes at least, so that most bodies need not be counted.
        if len(body) > 2 * limits.elements and (elements := wire.count_elements(signal, body)) > limits.elements:
            return Refused("too_many_items", f"{elements} repeated elements in one body, at most {limits.elements} are taken")
        folded = wire.parse_folded(signal, body)
    except DecodeError:
        return Refused("junk", f"not an OTLP {signal} request: the protobuf is broken or nests too deeply")
    if signal == "logs":
        return _records(body, limits, content_filter, beyond)
    keys = wire.attribute_keys(signal, folded)
    doomed = beyond(set().union(*keys.values()))
    dropped = over_limit = 0
    if doomed:
        body, over_limit = drop_keys(signal, body, doomed)
    if content_filter is not None and signal == "traces" and content_filter.may_have_content(keys):
        body, dropped = content_filter.drop(body)
    return Accepted(body, items, dropped, over_limit)


def _records(body: bytes, limits: Limits, content_filter: ContentFilter | None, beyond: Beyond) -> Accepted:
    """The per-request records among log records, as spans."""
    found = converted(body, content_filter.is_content if content_filter else lambda _: False, limits.body_bytes)
    values, over_limit = [], 0
    for value in found.requests or (b"",):
        doomed = beyond(set().union(*wire.attribute_keys("traces", wire.parse_folded("traces", value)).values()))
        kept, dropped = drop_keys("traces", value, doomed) if doomed else (value, 0)
        values.append(kept)
        over_limit += dropped
    return Accepted(values[0], found.kept, 0, over_limit, tuple(values[1:]), found.refused, _printable(found.why))


def response(answer: Accepted) -> Message | None:
    """The body of the OK, where it says more than that."""
    if not answer.refused:
        return None
    return ExportLogsServiceResponse(
        partial_success=ExportLogsPartialSuccess(rejected_log_records=answer.refused, error_message=answer.why)
    )


def too_large(limits: Limits) -> Refused:
    return Refused("too_large", f"the body has more than {limits.body_bytes} bytes ([receive] max_body_bytes)")


class Edge:
    """One receiver's edge. Safe to use from several threads; keeps at most max_bodies_in_flight bodies at once."""

    def __init__(
        self, settings: ReceiveSettings, log: AppendLog, keys: Keyring, clock: Clock, counters: Counters, transport: Transport
    ) -> None:
        self.limits = Limits.of(settings)
        self._log, self._keys, self._clock = log, keys, clock
        self._counters, self._transport = counters, transport
        self._filter = None if settings.keep_content else ContentFilter(content_keys())
        self._key_limit = KeyLimit(settings.max_attribute_keys_per_hour, figure_keys())
        self._gate = threading.BoundedSemaphore(settings.max_bodies_in_flight)

    def admit(self, bearer: str | None) -> Identity | Refused:
        """Who is sending. Does not look at the body, so that it can be asked before there is one."""
        answer = self._keys.authenticate(bearer, "ingest")
        return Refused(answer.reason, answer.message) if isinstance(answer, KeyRefused) else answer

    @contextmanager
    def body_in_flight(self) -> Iterator[Refused | None]:
        """Holds one of the places for a body; yields a refusal when none is free."""
        if not self._gate.acquire(blocking=False):
            yield Refused("busy", "too many bodies are being received ([receive] max_bodies_in_flight)", RETRY_AFTER_SECONDS["busy"])
            return
        try:
            yield None
        finally:
            self._gate.release()

    def receive(self, signal: Signal, body: bytes, content: Content, sender: Identity) -> Accepted | Refused:
        """Returns Accepted only when the log has the body durably; of several parts all, or the sender sends again what is stored once
        by its ids. Does not count; the receiver tells `count` its answer."""
        now_ns = self._clock()
        decision = accept(signal, body, content, self.limits, self._filter, lambda keys: self._key_limit.beyond(sender, keys, now_ns))
        if isinstance(decision, Refused) or decision.items == 0:
            return decision
        headers = {
            "principal": sender.principal,
            "ingest_key": sender.key_name,
            "received_ns": str(now_ns),
            "content": "otlp_proto",
        }
        try:
            for value in (decision.value, *decision.more):
                self._log.append(TOPICS[signal], headers, value)
        except LogFull as error:
            return Refused("log_full", f"the log takes no more at the moment: {_printable(str(error))}", RETRY_AFTER_SECONDS["log_full"])
        except LogUnavailable as error:
            message = f"the log cannot be reached: {_printable(str(error))}"
            return Refused("log_unavailable", message, RETRY_AFTER_SECONDS["log_unavailable"])
        except RecordTooLarge as error:
            return Refused("too_large", f"the log does not take a record of this size: {_printable(str(error))}")
        return decision

    def count(self, signal: Signal, answer: Accepted | Refused) -> None:
        labels = {"transport": self._transport, "signal": signal}
        result = answer.reason if isinstance(answer, Refused) else "accepted" if answer.items else "empty"
        self._counters.add("tokenpath_receiver_bodies_total", result=result, **labels)
        if isinstance(answer, Accepted) and answer.refused:
            self._counters.add("tokenpath_receiver_refused_items_total", answer.refused, **labels)
        if isinstance(answer, Accepted) and answer.items:
            self._counters.add("tokenpath_receiver_bytes_total", sum(map(len, (answer.value, *answer.more))), **labels)
            self._counters.add("tokenpath_receiver_items_total", answer.items, **labels)
            if answer.dropped:
                self._counters.add("tokenpath_receiver_content_dropped_total", answer.dropped, **labels)
            if answer.over_limit:
                self._counters.add("tokenpath_receiver_keys_over_limit_total", answer.over_limit, **labels)


def _printable(text: str) -> str:
    """Text that fits into a protobuf string, whatever the body put into an error message."""
    return text[:500].encode("utf-8", "replace").decode()
