"""OTLP/JSON to OTLP protobuf. It is protobuf's JSON mapping, except that trace and span ids are hex (OTLP 1.x)."""

import json
import re
from base64 import b64encode
from typing import Any

from google.protobuf import json_format

from collectors.wire import OFFICIAL, Signal

_IDS = frozenset({"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"})
# A \ud800..\udfff escape: if it is not half of a pair, Python makes text of it that protobuf cannot hold.
_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}|\\u[dD][c-fC-F][0-9a-fA-F]{2}")


class NotOtlpJson(ValueError):
    """The body is not JSON, or not the JSON of this request."""


def to_protobuf(signal: Signal, body: bytes) -> bytes:
    """Integers may be numbers or strings, enums numbers or names; unknown fields are left out; text that is not UTF-8
    or not Unicode becomes U+FFFD. An id that is not hex keeps its text as bytes, and the view flags it by its length.
    Raises NotOtlpJson.
    """
    try:
        document = json.loads(body.decode("utf-8", "replace"))
        if not isinstance(document, dict):
            raise NotOtlpJson(f"the body is a JSON {type(document).__name__}, not an object")
        document = _rewrite(document, _SURROGATE.search(body) is not None)
        message = json_format.ParseDict(document, OFFICIAL[signal](), ignore_unknown_fields=True)
        return message.SerializeToString()
    except NotOtlpJson:
        raise
    except RecursionError as error:
        raise NotOtlpJson("the JSON nests too deeply") from error
    except (json_format.Error, ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        # The last five: json_format lets some of Python's own errors through when a value has an unexpected type.
        raise NotOtlpJson(str(error)[:500]) from error


def _rewrite(value: Any, mend: bool) -> Any:
    """The same document with hex ids as base64 and, if `mend`, without lone surrogates."""
    if isinstance(value, dict):
        # A name with a lone surrogate is no field of ours, and protobuf trips over it.
        members = {_mended(key): member for key, member in value.items()} if mend else value
        return {key: _id(member, mend) if key in _IDS else _rewrite(member, mend) for key, member in members.items()}
    if isinstance(value, list):
        return [_rewrite(member, mend) for member in value]
    if mend and isinstance(value, str):
        return _mended(value)
    return value


def _id(value: Any, mend: bool) -> Any:
    if not isinstance(value, str):
        return _rewrite(value, mend)
    try:
        raw = bytes.fromhex(value)
    except ValueError:
        raw = _mended(value).encode()
    return b64encode(raw).decode()


def _mended(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
