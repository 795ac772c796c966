"""The report as JSON (`tokenpath.report/1`) and as CSV: one line per group, the same leaves joined by `_`."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from schemas.report import SCHEMA, Figures, Group, Range, Report
from schemas.stages import OTHER, STAGES


def to_json(report: Report) -> str:
    """CONTRACTS 5. Money is text, times are integer ns, unknown is null."""
    name = report.by
    document = {
        "schema": SCHEMA,
        **_range(report.range),
        "requested": _range(report.requested),
        "available": _range(report.available) if report.available else None,
        "by": name,
        "currency": report.currency,
        "as_of": _time(report.as_of),
        "method": report.method,
        "useful_policy": report.useful_policy,
        "windows": report.windows,
        "provisional_windows": report.provisional_windows,
        "config_hash": report.config_hash,
        f"{name}s": [{name: group.key, **_plain(group.figures)} for group in report.groups],
        "unallocated": report.unallocated,
        "pools": report.pools,
        "totals": _plain(report.totals),
        "leak": [{"class": cell.cost_class, "stage": cell.stage, "cost": cell.cost} for cell in report.leak],
        "misses": [blamed.model_dump(mode="json") for blamed in report.misses],
        "tail": [blamed.model_dump(mode="json") for blamed in report.tail],
        "conservation": report.conservation.model_dump(mode="json"),
        "data_quality": report.data_quality.model_dump(mode="json"),
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def to_csv(report: Report) -> str:
    """Text is quoted as RFC 4180 says and never altered, so a spreadsheet must import it as text. Unknown is an empty cell."""
    stages = [stage for stage in (*STAGES, OTHER) if any(stage in group.figures.stages for group in report.groups)]
    lines = [_line(report, group, stages) for group in report.groups] or [_line(report, Group(key="", figures=report.totals), stages)]
    written = io.StringIO()
    # CRLF: with a bare newline the writer would leave a carriage return inside a name unquoted.
    writer = csv.DictWriter(written, fieldnames=list(lines[0]), lineterminator="\r\n")
    writer.writeheader()
    if report.groups:
        writer.writerows(lines)
    return written.getvalue()


def _line(report: Report, group: Group, stages: list[str]) -> dict[str, Any]:
    plain = _plain(group.figures)
    missing = {"n": 0, "p50": None, "p95": None, "p99": None, "p99_9": None, "kind": None, "quality": None}
    plain["stages"] = {stage: plain["stages"].get(stage, missing) for stage in stages}
    return {report.by: group.key, **_range(report.range), "currency": report.currency, **dict(_leaves(plain, ""))}


def _leaves(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}_")
        else:
            yield f"{prefix}{name}", "|".join(value) if isinstance(value, list) else value


def _plain(figures: Figures) -> dict[str, Any]:
    return figures.model_dump(mode="json")


def _range(during: Range) -> dict[str, str | None]:
    return {"from": _time(during.from_at), "to": _time(during.to_at)}


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")
