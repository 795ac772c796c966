"""Reading JSON rows: nested fields as flat attributes, times in any unit, values that mean "missing"."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

Row = Mapping[str, Any]
Scalar = str | int | float | bool

MISSING = frozenset({"", "-", "null", "None"})
INT64_MAX = 2**63 - 1
DECODE_SECONDS = "tokenpath.record.decode_seconds"  # from the first token to the end, where a record tells both
# One more than the store keeps, so that it says `cut`.
ATTRIBUTES_MAX = 129
TEXT_MAX = 16_385
LONGEST_NS = 100 * 86_400 * 10**9  # of a duration; what is longer is another unit
DEPTH_MAX = 6  # what nests deeper becomes JSON text
TRACEPARENT = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$")
# Epoch times by their size: seconds until the year 5138, milliseconds from 1973 on.
EPOCH_UNITS = ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3))


def flat(row: Row, is_content: Callable[[str], bool], leave_out: frozenset[str] = frozenset()) -> dict[str, Scalar]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`. Missing values are left out, lists are JSON text, integers beyond 64 bits are text.

    What `is_content` says of a name holds for all that is below it. `leave_out`: names that are no facts of the call.
    """
    return dict(islice(_flat(row, "", 1, lambda key: key in leave_out or is_content(key)), ATTRIBUTES_MAX))


def _flat(row: Row, prefix: str, depth: int, skip: Callable[[str], bool]) -> Iterator[tuple[str, Scalar]]:
    nested: list[tuple[str, Row]] = []
    for name, value in row.items():
        key = f"{prefix}{name}"
        if skip(key):
            continue
        if type(value) is dict and depth < DEPTH_MAX:
            nested.append((key, value))
        elif (told := _scalar(value)) is not None:
            yield key, told
    for key, value in nested:
        yield from _flat(value, f"{key}.", depth + 1, skip)


def _scalar(value: Any) -> Scalar | None:
    if isinstance(value, str):  # the most frequent first: this is asked of every field
        return None if value in MISSING else value[:TEXT_MAX]
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -INT64_MAX <= value <= INT64_MAX else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not value:
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))[:TEXT_MAX]


def text(row: Row, *names: str) -> str:
    """The first of the fields that is told, as text; empty where none is."""
    for name in names:
        value = row.get(name)
        if value is not None and not isinstance(value, Mapping | list) and str(value).strip() not in MISSING:
            return str(value).strip()
    return ""


def number(row: Row, name: str) -> Decimal | None:
    """A number, also one in a string. Missing, negative and not finite: None."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        told = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return told if told.is_finite() and told >= 0 else None


def duration_ns(row: Row, name: str, unit_ns: int) -> int | None:
    told = number(row, name)
    return None if told is None or told * unit_ns > LONGEST_NS else int(told * unit_ns)


def time_ns(row: Row, name: str) -> int | None:
    """Unix ns of an ISO 8601 time (without a zone: UTC) or an epoch number, whose unit its size tells. None where it is neither."""
    told = number(row, name)
    if told is not None:
        if told <= 0:
            return None
        unit_ns = next((unit_ns for limit, unit_ns in EPOCH_UNITS if told < limit), 1)
        return int(told * unit_ns) if told * unit_ns <= INT64_MAX else None
    value = row.get(name)
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    ns = ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000
    return ns if 0 < ns <= INT64_MAX else None


def trace_of(row: Row, *names: str) -> tuple[bytes, bytes] | None:
    """(trace id, span id) of the first field that is a W3C traceparent, or a bare trace id in hex (the span id is zeros then)."""
    for name in names:
        told = text(row, name).lower()
        if match := TRACEPARENT.match(told):
            found = bytes.fromhex(match[1]), bytes.fromhex(match[2])
        elif re.fullmatch(r"[0-9a-f]{32}", told):
            found = bytes.fromhex(told), bytes(8)
        else:
            continue
        if any(found[0]):
            return found
    return None


def opened(row: Row, *names: str) -> dict[str, Any]:
    """A copy in which these fields are objects, where they were JSON text of one (as a table's export writes them)."""
    copy = dict(row)
    for name in names:
        if isinstance(value := copy.get(name), str) and value.lstrip().startswith("{"):
            try:
                copy[name] = json.loads(value)
            except ValueError:
                continue
    return copy
