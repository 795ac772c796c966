"""OTLP/JSON to OTLP protobuf: protobuf's JSON mapping, except that trace and span ids are hex (OTLP 1.x).

Not protobuf's own json_format, because that cannot read hex ids and takes several times as long: the document is turned into
keyword arguments by a table per message type, made once from the descriptors, and protobuf builds the message in C.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import EncodeError

from collectors.wire import OFFICIAL, Signal

Convert = Callable[[Any], Any]
Table = dict[str, tuple[str, Convert]]  # JSON name or field name -> (field name, how to convert its value)

ID_FIELDS = frozenset({"trace_id", "span_id", "parent_span_id"})
# A \ud800..\udfff escape: if it is not half of a pair, Python makes text of it that protobuf cannot hold.
SURROGATE = re.compile(rb"\\u[dD][89abcdefABCDEF][0-9a-fA-F]{2}")


class NotOtlpJson(ValueError):
    """The body is not JSON, or not the JSON of this request."""


def to_protobuf(signal: Signal, body: bytes) -> bytes:
    """Integers may be numbers or strings, enums numbers or names; unknown fields, unknown enum names and null are left out;
    text that is not UTF-8 or not Unicode becomes U+FFFD. An id that is not hex keeps its text as bytes, and the view flags
    it by its length. Raises NotOtlpJson.
    """
    try:
        document = json.loads(body.decode("utf-8", "replace"))
        if SURROGATE.search(body):
            document = _mended(document)
        return OFFICIAL[signal](**_REQUESTS[signal](document)).SerializeToString()
    except RecursionError as error:
        raise NotOtlpJson("the JSON nests too deeply") from error
    except (ValueError, TypeError, OverflowError, EncodeError) as error:
        raise NotOtlpJson(str(error)[:500]) from error


def _mended(value: Any) -> Any:
    """The same document without lone surrogates."""
    if isinstance(value, dict):
        return {_mended(key): _mended(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_mended(member) for member in value]
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _message(descriptor: Descriptor, tables: dict[str, Table]) -> Convert:
    """JSON object -> keyword arguments. `tables` holds what is known already, since messages contain themselves."""
    table = tables.get(descriptor.full_name)
    if table is None:
        table = tables[descriptor.full_name] = {}
        for field in descriptor.fields:
            table[field.json_name] = table[field.name] = (field.name, _field(field, tables))

    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise ValueError(f"{descriptor.name} is {_kind(value)}, not an object")
        arguments = {}
        for key, member in value.items():
            known = table.get(key)
            if known is not None and member is not None and (converted := known[1](member)) is not None:
                arguments[known[0]] = converted
        return arguments

    return convert


def _field(field: FieldDescriptor, tables: dict[str, Table]) -> Convert:
    single = _single(field, tables)
    if not field.is_repeated:
        return single

    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise ValueError(f"{field.name} is {_kind(value)}, not an array")
        return [single(member) for member in value]

    return convert


def _single(field: FieldDescriptor, tables: dict[str, Table]) -> Convert:
    if field.message_type is not None:
        return _message(field.message_type, tables)
    if field.enum_type is not None:
        return _enum(field.enum_type)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _id if field.name in ID_FIELDS else _base64
    if field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return _double
    return {FieldDescriptor.TYPE_STRING: _text, FieldDescriptor.TYPE_BOOL: _boolean}.get(field.type, _integer)


def _enum(descriptor: EnumDescriptor) -> Convert:
    numbers = {name: value.number for name, value in descriptor.values_by_name.items()}

    def convert(value: Any) -> int | None:
        return numbers.get(value) if type(value) is str else _integer(value)

    return convert


def _id(value: Any) -> bytes:
    text = _text(value)
    try:
        return bytes.fromhex(text)
    except ValueError:
        return text.encode()


def _base64(value: Any) -> bytes:
    text = _text(value)
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))  # reads the usual alphabet too


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{_kind(value)} where a string is expected")
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{_kind(value)} where true or false is expected")
    return value


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is str or (type(value) is float and value.is_integer()):
        return int(value)
    raise ValueError(f"{_kind(value)} where an integer is expected")


def _double(value: Any) -> float:
    if type(value) in (int, float, str):
        return float(value)  # also of "NaN", "Infinity", "-Infinity"
    raise ValueError(f"{_kind(value)} where a number is expected")


def _kind(value: Any) -> str:
    return {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")


_REQUESTS: dict[Signal, Convert] = {signal: _message(cast(Descriptor, request.DESCRIPTOR), {}) for signal, request in OFFICIAL.items()}
