"""What a dashboard is: panels with one query each, placed on Grafana's grid.

Grafana's JSON and the viewer's page come from the same definitions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Kind = Literal["stat", "timeseries", "bars", "table"]
Unit = Literal["usd", "ratio", "ns", "tokens", "count", "text", "time"]

GRID_COLUMNS = 24
DATA_SOURCE = {"type": "grafana-clickhouse-datasource", "uid": "clickhouse"}
PLUGIN_VERSION = "4.20.0"
# Grafana's names of our units; USD follows the price book's currency in the demo and is an option of publish.
GRAFANA_UNITS: Mapping[Unit, str] = {
    "usd": "currencyUSD",
    "ratio": "percentunit",
    "ns": "ns",
    "tokens": "short",
    "count": "short",
    "text": "string",
    "time": "dateTimeAsIso",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Panel:
    """One question, one query, one picture. `question` is shown as the panel's description.

    A timeseries or bars query returns `time` (ascending), at most one text column (the series), then numbers; a stat query one row;
    a table query any columns, whose units are in `columns` by name. `heat`: columns whose cells are coloured, the larger the darker.
    """

    id: int
    title: str
    question: str
    kind: Kind
    query: str  # file name in queries/ without .sql
    x: int
    y: int
    w: int
    h: int
    unit: Unit = "count"
    decimals: int | None = None
    columns: Mapping[str, Unit] = field(default_factory=dict)
    stacked: bool = False
    heat: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Variable:
    """A filter with "All" as its first value. A filter is not access control."""

    name: str
    label: str
    query: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    description: str
    default_range_seconds: int
    min_interval: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]


@cache
def query_text(name: str) -> str:
    """The SQL of a panel or variable, with Grafana's macros in it."""
    return (files("dashboards") / "queries" / f"{name}.sql").read_text(encoding="utf-8").strip()


def grafana_json(dashboard: Dashboard) -> dict[str, Any]:
    """Classic dashboard JSON (schemaVersion 42), as file provisioning and `POST /api/dashboards/db` take it. It carries no `id`."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["tokenpath"],
        "schemaVersion": 42,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "timezone": "utc",
        "time": {"from": f"now-{_duration(dashboard.default_range_seconds)}", "to": "now"},
        "refresh": "1m",
        "links": [
            {"type": "dashboards", "tags": ["tokenpath"], "title": "Tokenpath", "asDropdown": False, "includeVars": True, "keepTime": True}
        ],
        "annotations": {"list": []},
        "templating": {"list": [_variable(variable) for variable in dashboard.variables]},
        "panels": [_panel(panel, dashboard.min_interval) for panel in dashboard.panels],
    }


def _duration(seconds: int) -> str:
    return f"{seconds // 86_400}d" if seconds % 86_400 == 0 else f"{seconds // 3600}h"


def _variable(variable: Variable) -> dict[str, Any]:
    sql = query_text(variable.query)
    return {
        "type": "query",
        "name": variable.name,
        "label": variable.label,
        "datasource": DATA_SOURCE,
        "definition": sql,
        "query": {"editorType": "sql", "rawSql": sql},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "sort": 1,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(panel: Panel, min_interval: str) -> dict[str, Any]:
    target = {
        "refId": "A",
        "datasource": DATA_SOURCE,
        "editorType": "sql",
        "rawSql": query_text(panel.query),
        "format": 0 if panel.kind in ("timeseries", "bars") else 1,
        "pluginVersion": PLUGIN_VERSION,
    }
    defaults: dict[str, Any] = {"unit": GRAFANA_UNITS[panel.unit], "noValue": "–"}
    if panel.decimals is not None:
        defaults["decimals"] = panel.decimals
    result: dict[str, Any] = {
        "id": panel.id,
        "title": panel.title,
        "description": panel.question,
        "type": "timeseries" if panel.kind == "bars" else panel.kind,
        "datasource": DATA_SOURCE,
        "gridPos": {"x": panel.x, "y": panel.y, "w": panel.w, "h": panel.h},
        "targets": [target],
        "fieldConfig": {
            "defaults": defaults,
            "overrides": [_override(name, unit, name in panel.heat) for name, unit in panel.columns.items()],
        },
        "options": _options(panel),
    }
    if panel.kind in ("timeseries", "bars"):
        result["interval"] = min_interval
        defaults["custom"] = _drawing(panel)
    return result


def _override(column: str, unit: Unit, heat: bool) -> dict[str, Any]:
    properties: list[dict[str, Any]] = [{"id": "unit", "value": GRAFANA_UNITS[unit]}]
    if heat:
        properties += [
            {"id": "custom.cellOptions", "value": {"type": "color-background", "mode": "basic"}},
            {"id": "color", "value": {"mode": "continuous-YlRd"}},
            {"id": "min", "value": 0},
            {"id": "noValue", "value": " "},
        ]
    return {"matcher": {"id": "byName", "options": column}, "properties": properties}


def _drawing(panel: Panel) -> dict[str, Any]:
    bars = panel.kind == "bars"
    return {
        "drawStyle": "bars" if bars else "line",
        "lineWidth": 1,
        "fillOpacity": 80 if bars else (30 if panel.stacked else 0),
        "showPoints": "auto",
        "spanNulls": False,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
    }


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        return {
            "colorMode": "none",
            "graphMode": "none",
            "textMode": "value",
            "justifyMode": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "/.*/", "values": False},
        }
    if panel.kind == "table":
        return {"showHeader": True, "cellHeight": "sm"}
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
