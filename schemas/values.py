"""Values as users write them in TOML: exact decimals, UTC times, half-open validity `[from, to)`."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from schemas.source import Refusal

OPEN_NS = 2**63 - 1  # `to` of a row that is still valid
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DECIMAL = re.compile(r"^-?[0-9]{1,20}(\.[0-9]{1,12})?$")


def _decimal(value: Any) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if not isinstance(value, str):
        raise ValueError(f'write it as a text, "{value}", so that it stays exact')
    if not _DECIMAL.match(value):
        raise ValueError(f"{value!r} is not a plain decimal with at most 12 places after the point")
    return Decimal(value)


def _utc(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise ValueError("write a date and time without quotes, such as 2026-10-01T00:00:00Z")
    if value.tzinfo is None or value.utcoffset() != timedelta(0):
        raise ValueError(f"{value.isoformat()} is not UTC: end it with Z")
    return value.astimezone(UTC)


def _milliseconds(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("give a number of milliseconds")
    return Decimal(str(value))


def _iana_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"unknown time zone {value!r}; use an IANA name such as Europe/Berlin") from error
    return value


TimeZone = Annotated[str, AfterValidator(_iana_zone)]
DecimalText = Annotated[Decimal, BeforeValidator(_decimal)]
Money = Annotated[DecimalText, Field(ge=0)]
Share = Annotated[DecimalText, Field(gt=0, le=1)]
UtcTime = Annotated[datetime, BeforeValidator(_utc)]
Milliseconds = Annotated[Decimal, BeforeValidator(_milliseconds), Field(gt=0, le=86_400_000)]


class Entry(BaseModel):
    """Frozen; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Effective(Entry):
    """A row that holds from `from` until just before `to`; without `to` it holds until further notice."""

    from_: UtcTime = Field(alias="from")
    to: UtcTime | None = None

    @model_validator(mode="after")
    def ends_after_it_begins(self) -> "Effective":
        if self.to is not None and self.to <= self.from_:
            raise ValueError("to must be later than from")
        return self

    @property
    def from_ns(self) -> int:
        return unix_ns(self.from_)

    @property
    def to_ns(self) -> int:
        return OPEN_NS if self.to is None else unix_ns(self.to)


def unix_ns(time: datetime) -> int:
    """Exact: a datetime has microseconds."""
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000


Row = TypeVar("Row", bound=Effective)


def overlaps(table: str, rows: Sequence[Row], keys: Callable[[Row], Iterable[Hashable]], what: str) -> Iterator[Refusal]:
    """Rows that share a key and a moment. Each is named once, at its own place, beside the earlier row that it meets."""
    seen: dict[Hashable, list[tuple[int, Row]]] = {}
    for index, row in enumerate(rows):
        for key in keys(row):
            met = next((number for number, one in seen.get(key, ()) if row.from_ns < one.to_ns and one.from_ns < row.to_ns), None)
            if met is not None:
                yield Refusal((table, index), f"overlaps [[{table}]] {met + 1}: {what} of {_told(key)} must have one row at a time")
                break
        for key in keys(row):
            seen.setdefault(key, []).append((index, row))


def _told(key: Hashable) -> str:
    """A key of several parts without Python's brackets; parts that are empty mean "all"."""
    if not isinstance(key, tuple):
        return repr(key)
    return ", ".join(" = ".join(map(str, part)) if isinstance(part, tuple) else repr(part) for part in key if part != "") or "all"


def unknown(location: tuple[str | int, ...], what: str, name: str, known: Iterable[str], remedy: str) -> Refusal:
    near = get_close_matches(name, sorted(known), n=1)
    return Refusal(location, f"unknown {what} {name!r}: " + (f"did you mean {near[0]!r}?" if near else remedy))
