"""A file of records as spans: what `tokenpath import` appends to the log, and what it says about each row."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import BinaryIO

from collectors.content import ContentFilter, content_keys
from collectors.records import FORMATS, call_of
from collectors.records.call import Call, IsContent, NotACall, NotARecord
from collectors.records.fields import Scalar
from collectors.records.rows import FileRow, rows
from collectors.records.spans import trace_request
from schemas.profile import Profile, Reading


@dataclass(frozen=True, slots=True)
class Imported:
    """One row. Either `spans` (an OTLP request of its own, which may be put after another), or why there are none: `left_out` names what
    else it tells of, `refused` says what is wrong with it."""

    line: int
    end: int
    end_line: int
    raw: bytes
    spans: bytes = b""
    kind: str = ""
    started_ns: int = 0
    ended_ns: int = 0
    tenant: str = ""
    model: str = ""
    left_out: str = ""
    refused: str = ""


def read_records(
    stream: BinaryIO, offset: int, line: int, format: str, resource: Mapping[str, Scalar], keep_content: bool
) -> Iterator[Imported]:
    """From an offset (and its line) that a row ended at. `format`: one of FORMATS, or "" for what each row shows."""
    is_content: IsContent = (lambda _: False) if keep_content else ContentFilter(content_keys()).is_content
    for row in rows(stream, offset, line):
        yield _imported(row, format, resource, is_content)


def _imported(row: FileRow, format: str, resource: Mapping[str, Scalar], is_content: IsContent) -> Imported:
    place = (row.line, row.end, row.end_line, row.raw)
    if row.value is None:
        return Imported(*place, refused=row.error)
    try:
        call = call_of(row.value, is_content, FORMATS[format] if format else None)
    except NotARecord as error:
        return Imported(*place, refused=str(error))
    except NotACall as error:
        return Imported(*place, left_out=str(error))
    return Imported(
        *place,
        spans=trace_request([call], resource).SerializeToString(),
        kind=call.format,
        started_ns=call.started_ns,
        ended_ns=call.ended_ns,
        tenant=_first(call, "tenant"),
        model=_first(call, "model"),
    )


def _first(call: Call, field: str) -> str:
    """What the packaged profile will read of the record; empty where it tells nothing."""
    return next((str(call.attributes[key]) for key in _keys(call.format, field) if key in call.attributes), "")


@cache
def _keys(format: str, field: str) -> tuple[str, ...]:
    text = files("schemas").joinpath(f"profiles/{format}-record.toml").read_text(encoding="utf-8")
    profile = Profile.model_validate(tomllib.loads(text))
    readings = (getattr(span, field) for span in profile.span)
    return next((reading.keys for reading in readings if isinstance(reading, Reading)), ())
