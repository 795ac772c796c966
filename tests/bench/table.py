"""The result of the bench: a table for people, JSON for machines."""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from rich.table import Table

from tests.bench.parts import Figures, Line, Part, Unit

SCHEMA = "tokenpath.bench/1"
OTHERS_CORES_MAX = 0.2


def shown(value: float | None, unit: Unit) -> str:
    if value is None:
        return "–"
    if unit in ("per_second", "count", "milliseconds"):
        return f"{value:,.0f}"
    if unit == "megabytes":
        return f"{value / 1e6:,.0f}"
    return f"{value:,.2f}" if unit in ("ratio", "seconds") else f"{value:,.1f}"


def budget(line: Line) -> str:
    if line.at_least is not None:
        return f"at least {shown(line.at_least, line.unit)}"
    return f"at most {shown(line.at_most, line.unit)}" if line.at_most is not None else ""


def verdict(line: Line, value: float | None) -> str:
    return {None: "", True: "ok", False: "BELOW"}[line.met(value)]


def table(results: Sequence[tuple[Part, Figures, Mapping[str, str]]]) -> Table:
    """`results`: part, figures, and what went wrong by measurement."""
    made = Table(title=f"Tokenpath on {machine()['cpus']} cores", title_justify="left")
    for name, justify in (("measured", "left"), ("value", "right"), ("budget", "right"), ("", "left")):
        made.add_column(name, justify=justify)  # type: ignore[arg-type]
    for part, figures, errors in results:
        made.add_section()
        made.add_row(f"[bold]{part.title}[/bold]\n[dim]python -m tests.bench {part.name}[/dim]")
        for line in part.lines:
            value = line.value(figures)
            word = verdict(line, value)
            made.add_row(f"  {line.what}", shown(value, line.unit), budget(line), f"[red]{word}[/red]" if word == "BELOW" else word)
        others = max((value for name, value in figures.items() if name.endswith(".others_cores")), default=0.0)
        if others > OTHERS_CORES_MAX:
            made.add_row(f"  [yellow]something else used {others:.1f} cores meanwhile: no fair figures[/yellow]")
        for name in errors:
            made.add_row(f"  [red]{name} failed, see below[/red]")
    return made


def as_json(results: Sequence[tuple[Part, Figures, Mapping[str, str]]]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "machine": machine(),
        "parts": [
            {
                "part": part.name,
                "figures": dict(figures),
                "lines": [
                    {
                        "what": line.what,
                        "value": line.value(figures),
                        "unit": line.unit,
                        "at_least": line.at_least,
                        "at_most": line.at_most,
                        "met": line.met(line.value(figures)),
                    }
                    for line in part.lines
                ],
                "errors": dict(errors),
            }
            for part, figures, errors in results
        ],
    }


def machine() -> dict[str, Any]:
    names = ("chdb", "clickhouse-connect", "grpcio", "protobuf")
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: version(name) for name in names},
    }
