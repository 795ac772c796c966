"""Data points as rows of `samples`, and rules to read them, for tests of measures."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.attribution.measures import measure
from pipeline.attribution.scope import Scope
from pipeline.store.client import Store

S = 1_000_000_000
T = 1_793_577_600 * S  # 2026-11-02T00:00:00Z
WINDOW = 60 * S
WINDOWS = 3


def scope(first: int = 0, last: int = WINDOWS) -> Scope:
    return Scope(7, "c", T + first * WINDOW, T + last * WINDOW, WINDOW, S, 300 * S, 3600 * S)


def rule(metric: str, quantity: str, kind: str, rank: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "config_hash": "c", "profile": "p", "version": 1, "rule_no": rank + 1, "rank": rank, "metric": metric, "quantity": quantity,
        "kind": kind, "unit": "u", "combine": "sum", "reads": "value", "of": "replica", "labels": {}, "micro_per_unit": 1e6, **more,
    }  # fmt: skip


def point(metric: str, series: int, at_ns: int, value: float | None, **more: Any) -> dict[str, Any]:
    """`at_ns` from T. A start of 0 is none."""
    start_ns = more.pop("start_ns", None)
    return {
        "metric": metric, "series_id": series, "at": stamp(T + at_ns), "start_at": stamp(0 if start_ns is None else T + start_ns),
        "kind": "gauge", "value": value, "resource": {"service.name": "engine"}, "attributes": {"series": str(series)},
        "principal": "platform", "topic": "otlp_metrics", "received_ns": T, **more,
    }  # fmt: skip


def stamp(ns: int) -> str:
    return f"{ns // S:010d}.{ns % S:09d}"


def measured(
    store: Store, rules: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]], over: Scope | None = None
) -> list[dict[str, Any]]:
    """The rows of work_measures, with `window` counted from 0 instead of window_from."""
    store.insert_rows("metric_rules", rules)
    store.insert_rows("samples", points)
    measure(store, over or scope())
    columns = "intDiv(toInt64(toUnixTimestamp(window_from)) * 1000000000 - {t:Int64}, {w:Int64}) AS window, * EXCEPT (window_from, run_id)"
    return store.query(f"SELECT {columns} FROM work_measures ORDER BY ALL", {"t": T, "w": WINDOW}).dicts()
