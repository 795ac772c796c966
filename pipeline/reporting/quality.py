"""`tokenpath status --quality`: per source what its spans tell and what is wrong with them. A source is a service.name and who sent it.

Bounded: of more than SPANS_READ_MAX spans one block of rows in so many is read, and counts are scaled up to estimates. Requests count
for every source that has a span in their trace; a tree that was joined from another trace counts there only as spans.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.reporting.report import ReportQuery, parameters_of
from pipeline.reporting.shown import UNKNOWN, blank_table, iso, plain
from pipeline.statements import statement
from pipeline.store.client import Store

SQL = "pipeline.reporting.status_sql"
SPANS_READ_MAX = 1_000_000
SOURCES_MAX = 200

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Completeness:
    """Requests in whose traces the source has a span, and how many of them tell a thing. `engine`: the replica of an attempt."""

    requests: int = 0
    model: int = 0
    usage: int = 0
    tenant: int = 0
    engine: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """`read`: spans that a profile reads; `ignored`: that one knows and passes over; the others none knows."""

    service: str
    principal: str
    profiles: tuple[str, ...] = ()
    spans: int = 0
    read: int = 0
    ignored: int = 0
    stages: tuple[str, ...] = ()
    completeness: Completeness = field(default_factory=Completeness)
    flags: Mapping[str, int] = field(default_factory=dict)
    defects: Mapping[str, int] = field(default_factory=dict)
    rejected_spans: int = 0


@dataclass(frozen=True, slots=True)
class Quality:
    """`one_in`: 1 where every span was read, else counts (but of rejected and left out spans) are estimates from every n-th block.

    `left_out`: principal -> reason -> spans that no request shows.
    """

    from_at: datetime
    to_at: datetime
    one_in: int
    sources: tuple[Source, ...]
    left_out: Mapping[str, Mapping[str, int]]


def read_quality(store: Store, query: ReportQuery, spans_read_max: int = SPANS_READ_MAX) -> Quality:
    """Of spans that start in the range, and of the requests that the current runs of its windows show. At most SOURCES_MAX sources."""
    parameters = {name: value for name, value in parameters_of(query).items() if name in ("from", "to")}
    one_in = max(1, -(-int(store.query(statement(SQL, "source_rows"), parameters).scalar()) // spans_read_max))
    config_hash = store.query(statement("pipeline.configuration.sql", "newest")).scalar()
    parameters |= {
        "one_in": one_in,
        "sources_max": SOURCES_MAX,
        "config_hash": config_hash,
        "from_ns": _ns(parameters["from"]),
        "to_ns": _ns(parameters["to"]),
    }

    def rows(name: str) -> list[dict[str, Any]]:
        return store.query(statement(SQL, f"source_{name}"), parameters).dicts()

    def by_source(name: str) -> dict[Key, dict[str, Any]]:
        return {(row["service"], row["principal"]): row for row in rows(name)}

    spans, requests, duplicates, rejected = (by_source(name) for name in ("spans", "requests", "duplicates", "rejected"))
    left_out: dict[str, dict[str, int]] = {}
    for row in rows("left_out"):
        left_out.setdefault(row["principal"], {})[row["reason"]] = row["spans"]
    sources = tuple(
        _source(key, one_in, spans.get(key), requests.get(key), duplicates.get(key), rejected.get(key))
        for key in [*spans, *(key for key in rejected if key not in spans)][:SOURCES_MAX]
    )
    return Quality(query.from_at.astimezone(UTC), query.to_at.astimezone(UTC), one_in, sources, left_out)


def _source(
    key: Key,
    one_in: int,
    spans: Mapping[str, Any] | None,
    requests: Mapping[str, Any] | None,
    duplicates: Mapping[str, Any] | None,
    rejected: Mapping[str, Any] | None,
) -> Source:
    refused = rejected["spans"] if rejected else 0
    if spans is None:
        return Source(*key, rejected_spans=refused)
    defects = _counts(spans["defects"], one_in)
    if duplicates:
        defects["duplicate"] = duplicates["spans"] * one_in
    found = requests or {}
    return Source(
        *key,
        profiles=tuple(spans["profiles"]),
        spans=spans["spans"] * one_in,
        read=spans["read_spans"] * one_in,
        ignored=spans["ignored_spans"] * one_in,
        stages=tuple(spans["stages"]),
        completeness=Completeness(*(found.get(name, 0) * one_in for name in ("requests", "model", "usage", "tenant", "engine"))),
        flags=_counts(found["flags"], one_in) if found else {},
        defects=dict(sorted(defects.items())),
        rejected_spans=refused,
    )


def _counts(keys_and_values: Any, one_in: int) -> dict[str, int]:
    keys, values = keys_and_values
    return {key: value * one_in for key, value in sorted(zip(keys, values, strict=True))}


def _ns(at: datetime) -> int:
    return max(0, int(at.timestamp())) * 1_000_000_000


def as_document(quality: Quality) -> dict[str, Any]:
    """`quality` of `status --json`; ratios are null where there is nothing to divide by."""
    return {
        "from": iso(quality.from_at),
        "to": iso(quality.to_at),
        "sampled_one_in": quality.one_in,
        "sources": [
            {
                **asdict(source),
                "read_ratio": _ratio(source.read, source.spans),
                "unknown_tenant_ratio": _ratio(source.completeness.requests - source.completeness.tenant, source.completeness.requests),
            }
            for source in quality.sources
        ],
        "left_out": quality.left_out,
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def render(quality: Quality, console: Console) -> None:
    """A line of figures per source, and below it what is wrong. Names are data: no markup, no control characters."""
    title = f"Sources, {iso(quality.from_at)} to {iso(quality.to_at)}"
    if quality.one_in > 1:
        title += f" (estimates: 1 block of spans in {quality.one_in} read)"
    if not quality.sources:
        console.print(Text(f"{title}: no spans."))
        return
    table = blank_table(title)
    table.add_column("source", overflow="fold")
    table.add_column("profile", overflow="fold")
    for name in ("spans", "read", "requests", "model", "usage", "tenant", "engine"):
        table.add_column(name, justify="right", no_wrap=True)
    for source in quality.sources:
        known = source.completeness
        table.add_row(
            Text(plain(_name(source))),
            Text(plain(", ".join(source.profiles) or UNKNOWN)),
            f"{source.spans:,}",
            _percent(source.read, source.spans),
            f"{known.requests:,}",
            *(_percent(part, known.requests) for part in (known.model, known.usage, known.tenant, known.engine)),
        )
    console.print(table)
    for source in quality.sources:
        for line in _lines(source):
            console.print(Text(f"{plain(_name(source))}: {line}"))
    for principal, reasons in quality.left_out.items():
        console.print(Text(f"Spans of {plain(principal)} that no request shows: {_listed(reasons)}"))


def _lines(source: Source) -> list[str]:
    unread = source.spans - source.read - source.ignored
    told = (
        ("stages", ", ".join(source.stages)),
        ("spans that no profile knows", f"{unread:,}" if unread else ""),
        ("spans that its profile passes over", f"{source.ignored:,}" if source.ignored else ""),
        ("flagged requests", _listed(source.flags)),
        ("spans with a defect", _listed(source.defects)),
        ("spans refused for impossible times", f"{source.rejected_spans:,}" if source.rejected_spans else ""),
    )
    return [f"{name}: {text}" for name, text in told if text]


def _name(source: Source) -> str:
    return f"{source.service or 'no service.name'} ({source.principal})"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{plain(name)} {count:,}" for name, count in counts.items())


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else UNKNOWN
