"""OTLP protobuf as bytes: is a body well formed, how much is in it. One C parse each, no Python per span.

Three families of message classes are derived from the official descriptors when the module is loaded:

- tolerant: `string` is `bytes`, so text that is not UTF-8 is kept (the view repairs it) instead of refusing the request;
- folded: tolerant, and every repeated message is a single one. Protobuf merges what it meets again, so the parse checks
  the whole body and allocates next to nothing (an official `FromString` takes 240 bytes for a span of two). Only the
  attribute keys stay apart, all of one place in one list;
- level k: folded above and `repeated bytes` at the k-th nesting of repeated messages, which counts them without decoding.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Literal, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

Signal = Literal["traces", "metrics", "logs"]
MessageClass = type[Message]
Place = tuple[str, ...]  # field names from the request to a list of attributes
Field = descriptor_pb2.FieldDescriptorProto

OFFICIAL: dict[Signal, MessageClass] = {
    "traces": trace_service_pb2.ExportTraceServiceRequest,
    "metrics": metrics_service_pb2.ExportMetricsServiceRequest,
    "logs": logs_service_pb2.ExportLogsServiceRequest,
}
# Where the signal's own items lie: resource > scope > span or log record; resource > scope > metric > data point.
ITEM_LEVEL: dict[Signal, int] = {"traces": 3, "metrics": 4, "logs": 3}
ITEM_FIELD: dict[Signal, str] = {"traces": "spans", "metrics": "data_points", "logs": "log_records"}
# Deeper than the subset that ClickHouse decodes (attribute > array > values); what lies below is text to it.
DEEPEST_LEVEL = 7


def parse_folded(signal: Signal, body: bytes) -> Message:
    """The folded request. Raises DecodeError if any message at any depth is truncated or broken, or deeper than 100."""
    return _FOLDED[signal].FromString(body)


def count_items(signal: Signal, body: bytes) -> int:
    """Spans, data points or log records. Raises DecodeError where the outer messages are broken."""
    return _lengths(_LEVELS[signal][ITEM_LEVEL[signal] - 1].FromString(body), ITEM_FIELD[signal])


def count_elements(signal: Signal, body: bytes) -> int:
    """All repeated messages: resources, scopes, spans, attributes, events, links, array values. Raises DecodeError."""
    return sum(_lengths(level.FromString(body), None) for level in _LEVELS[signal])


def attribute_keys(signal: Signal, folded: Message) -> Mapping[Place, Set[bytes]]:
    """The different attribute keys of a folded request, by where they stand. Keys inside of values are text and do not count."""
    return {place: set(_at(folded, place).key[:]) for place in _PLACES[signal]}


def _at(message: Any, place: Place) -> Any:
    for name in place:
        message = getattr(message, name)
    return message


def _places(message: Descriptor, above: Place = ()) -> Iterator[Place]:
    for field in message.fields:
        inner = field.message_type
        if inner is not None and inner.name == "KeyValue":
            yield (*above, field.name)
        elif inner is not None and inner.name != "AnyValue":
            yield from _places(inner, (*above, field.name))


def tolerant(signal: Signal) -> MessageClass:
    """The request class whose strings are bytes. Keeps fields that it does not know."""
    return _TOLERANT[signal]


def _lengths(message: Message, field_name: str | None) -> int:
    """Summed lengths of the counted lists of a level message."""
    total = 0
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            total += _lengths(value, field_name)
        elif field.is_repeated and field_name in (None, field.name):
            total += len(value)
    return total


def _files(root: FileDescriptor) -> list[FileDescriptor]:
    """A file and all that it imports, imported ones first."""
    ordered: list[FileDescriptor] = []
    for dependency in root.dependencies:
        ordered += [file for file in _files(dependency) if file not in ordered]
    return [*ordered, root]


def _edited(official: MessageClass, edit: Callable[[descriptor_pb2.DescriptorProto], None]) -> MessageClass:
    """The same message from a pool of its own, every message type edited."""

    def walk(message: descriptor_pb2.DescriptorProto) -> None:
        edit(message)
        for nested in message.nested_type:
            walk(nested)

    pool = descriptor_pool.DescriptorPool()
    for file in _files(cast(FileDescriptor, official.DESCRIPTOR.file)):
        proto = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(proto)
        for message in proto.message_type:
            walk(message)
        pool.Add(proto)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(official.DESCRIPTOR.full_name))


def _make_tolerant(message: descriptor_pb2.DescriptorProto) -> None:
    for field in message.field:
        if field.type == Field.TYPE_STRING:
            field.type = Field.TYPE_BYTES


def _make_folded(message: descriptor_pb2.DescriptorProto) -> None:
    _make_tolerant(message)
    for field in message.field:
        if field.type == Field.TYPE_MESSAGE:
            field.label = Field.LABEL_OPTIONAL
        if message.name == "KeyValue" and field.name == "key":
            field.label = Field.LABEL_REPEATED
        # A oneof that changes its member throws the old one away and allocates anew; apart, each merges into itself.
        field.ClearField("oneof_index")
        field.ClearField("proto3_optional")
    del message.oneof_decl[:]


def _level(official: MessageClass, level: int) -> MessageClass:
    """A class without recursion: each nesting gets message types of its own, up to the counted level."""
    file = descriptor_pb2.FileDescriptorProto(name=f"level{level}.proto", package="level", syntax="proto3")
    _describe(file.message_type.add(name="Root"), cast(Descriptor, official.DESCRIPTOR), level, ".level.Root")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("level.Root"))


def _describe(target: descriptor_pb2.DescriptorProto, source: Descriptor, level: int, path: str) -> None:
    for field in source.fields:
        if field.message_type is None:
            continue  # kept as an unknown field, which costs its own bytes and no more
        copy = target.field.add(name=field.name, number=field.number, label=Field.LABEL_OPTIONAL)
        if field.is_repeated and level == 1:
            copy.label, copy.type = Field.LABEL_REPEATED, Field.TYPE_BYTES
            continue
        inner = f"In{field.number}"
        copy.type, copy.type_name = Field.TYPE_MESSAGE, f"{path}.{inner}"
        _describe(target.nested_type.add(name=inner), field.message_type, level - field.is_repeated, f"{path}.{inner}")


_TOLERANT = {signal: _edited(official, _make_tolerant) for signal, official in OFFICIAL.items()}
_FOLDED = {signal: _edited(official, _make_folded) for signal, official in OFFICIAL.items()}
_LEVELS = {signal: tuple(_level(official, level) for level in range(1, DEEPEST_LEVEL + 1)) for signal, official in OFFICIAL.items()}
_PLACES = {signal: tuple(_places(cast(Descriptor, official.DESCRIPTOR))) for signal, official in OFFICIAL.items()}
