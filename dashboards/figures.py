"""Pictures and numbers of the viewer: query results to plotly figures, tables and stats, formatted as people read them. Pure."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import plotly.graph_objects as go

from dashboards.panel import Panel, Unit

UNKNOWN = "–"
# Okabe-Ito, readable for colour-blind people; idle and unattributed are grey in every picture.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#8C564B", "#7F3C8D", "#17BECF", "#A3C644", "#3B4D8F",
    "#E78AC3", "#5A5A00", "#80CDC1", "#B22222",
)  # fmt: skip
GREYS = {
    "idle": "#C4C9D1",
    "idle_reserved": "#AEB4BE",
    "unattributed": "#8A919C",
    "overhead": "#6B7280",
    "platform_waste": "#9B8F8F",
    "other": "#C4C9D1",
}


def format_value(value: Any, unit: Unit, decimals: int | None = None) -> str:
    """One cell. None is unknown, which is not 0."""
    if value is None:
        return UNKNOWN
    if unit == "usd":
        return _money(float(value), decimals)
    if unit == "ratio":
        return f"{float(value) * 100:.{1 if decimals is None else decimals}f} %"
    if unit == "ns":
        return _duration(float(value))
    if unit in ("tokens", "count"):
        return f"{int(value):,}"
    if unit == "time" and isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return str(value)


def _money(value: float, decimals: int | None) -> str:
    if decimals is None or 0 < abs(value) < 10**-decimals:
        decimals = 2 if value == 0 or abs(value) >= 0.1 else 4
    return f"${value:,.{decimals}f}" if value >= 0 else f"-${-value:,.{decimals}f}"


def _duration(ns: float) -> str:
    for limit, divisor, name in ((1e3, 1.0, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms"), (60e9, 1e9, "s")):
        if abs(ns) < limit:
            return f"{_three_digits(ns / divisor)} {name}"
    return f"{_three_digits(ns / 60e9)} min"


def _three_digits(value: float) -> str:
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".") if decimals else f"{value:.0f}"


def table(panel: Panel, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Header and formatted cells; numbers are marked for right alignment."""
    units: list[Unit] = [panel.columns.get(name, "text") for name in columns]
    shown = {
        "columns": list(columns),
        "numeric": [unit not in ("text", "time") for unit in units],
        "rows": [
            [
                # Beside coloured cells an empty one says more than a dash.
                "" if value is None and name in panel.heat else format_value(value, unit)
                for name, value, unit in zip(columns, row, units, strict=True)
            ]
            for row in rows
        ],
    }
    return {**shown, "heat": _heat(panel, columns, rows)} if panel.heat else shown


def _heat(panel: Panel, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[list[float]]:
    """Per cell 0 (not coloured) to 1 (the largest): square roots, so that small amounts show beside large ones."""
    warm = [[float(value or 0) if name in panel.heat else 0.0 for name, value in zip(columns, row, strict=True)] for row in rows]
    largest = max((value for row in warm for value in row), default=0.0)
    return [[round(math.sqrt(max(value, 0.0) / largest), 3) if largest > 0 else 0.0 for value in row] for row in warm]


def stat(panel: Panel, rows: Sequence[Sequence[Any]]) -> str:
    return format_value(rows[0][0] if rows else None, panel.unit, panel.decimals)


def figure(panel: Panel, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """A time picture as plotly JSON: one trace per series, in the order of the largest sum first, greys last."""
    series = _series(columns, rows)
    picture = go.Figure()
    divisor, suffix = _axis(panel.unit, [point[1] for _, points in series for point in points])
    for position, (name, points) in enumerate(series):
        x, y = [point[0] for point in points], [None if point[1] is None else float(point[1]) / divisor for point in points]
        colour = GREYS.get(name, COLOURS[position % len(COLOURS)])
        if panel.kind == "bars":
            picture.add_trace(go.Bar(x=x, y=y, name=name, marker_color=colour))
        else:
            picture.add_trace(go.Scatter(x=x, y=y, name=name, mode="lines+markers", line={"color": colour}, connectgaps=False))
    picture.update_layout(
        barmode="stack" if panel.stacked else "group",
        margin={"l": 56, "r": 8, "t": 8, "b": 32},
        legend={"orientation": "h", "y": -0.18},
        hovermode="x unified",
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 12},
        yaxis={"ticksuffix": suffix, "tickprefix": "$" if panel.unit == "usd" else "", "rangemode": "tozero"},
        xaxis={"title": None, "type": "date"},
    )
    result: dict[str, Any] = picture.to_plotly_json()
    return result


def _axis(unit: Unit, values: Sequence[Any]) -> tuple[float, str]:
    """What values are divided by, and what stands behind the numbers of the axis."""
    if unit == "ns":
        return (1e9, " s") if max((float(v) for v in values if v is not None), default=0) >= 2e9 else (1e6, " ms")
    return (0.01, " %") if unit == "ratio" else (1.0, "")


def _series(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[tuple[str, list[tuple[str, Any]]]]:
    labelled = len(columns) == 3 and bool(rows) and isinstance(rows[0][1], str)
    found: dict[str, list[tuple[str, Any]]] = {}
    for row in rows:
        at = row[0].strftime("%Y-%m-%dT%H:%M:%S")
        if labelled:
            found.setdefault(row[1], []).append((at, row[2]))
        else:
            for name, value in zip(columns[1:], row[1:], strict=True):
                found.setdefault(name, []).append((at, value))
    if not labelled:
        return list(found.items())
    return sorted(found.items(), key=lambda item: (item[0] in GREYS, -sum(float(y or 0) for _, y in item[1]), item[0]))
