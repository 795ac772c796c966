"""How many spans or metrics a body holds, by one C parse that decodes none of them.

The message class folds what lies above them: protobuf merges a singular message that it meets again, so the items of all
resources and scopes end up in one list of undecoded bytes.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

_FIELD = descriptor_pb2.FieldDescriptorProto
_FILE = descriptor_pb2.FileDescriptorProto(name="tokenpath/item_count.proto", package="tokenpath.item_count", syntax="proto3")


def _message(name: str, field: int, inner: str) -> None:
    message = _FILE.message_type.add(name=name)
    if inner:
        message.field.add(name="inner", number=field, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_MESSAGE, type_name=inner)
    else:
        message.field.add(name="items", number=field, label=_FIELD.LABEL_REPEATED, type=_FIELD.TYPE_BYTES)


# ExportTraceServiceRequest.resource_spans = 1, .scope_spans = 2, .spans = 2; metrics have the same numbers.
_message("Request", 1, ".tokenpath.item_count.Resource")
_message("Resource", 2, ".tokenpath.item_count.Scope")
_message("Scope", 2, "")
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_FILE)
_REQUEST: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("tokenpath.item_count.Request"))


def count_items(body: bytes) -> int:
    """Spans of a trace request, metrics of a metrics request; 0 where the body is no such request (the engine will say so)."""
    try:
        return len(_REQUEST.FromString(body).inner.inner.items)
    except DecodeError:
        return 0
