"""What metrics tell of each window: from samples to work_measures, in ClickHouse. Only orders statements (sql/measures).

    samples -> work_series (which rule reads a series, what it is a figure of) -> work_measures (per window and place)

- A counter's increase between two points is spread evenly over the time between them. A value below the last one, or a start time after
  it, is a restart from 0. A first point without a start time counts from itself.
- A gauge's value holds until the next point. A rate is integrated the same way.
- Nothing is known across more than `STALE_NS` without a point: such an increase is not counted, such a value holds no longer.
"""

from collections.abc import Iterable
from typing import Any

from pipeline.attribution.scope import Scope
from pipeline.statements import statement
from pipeline.store.client import Store

SQL = "pipeline.attribution.sql.measures"
# Below the usual grace of five minutes: what the first points after a window say of it has come when the window is closed, so that a
# steady stream of points does not make every window run twice. Also in schemas/clickhouse/0073_sample_arrivals_view.sql.
STALE_NS = 240_000_000_000


# Quantities are independent of each other, so memory is bounded by taking only so many points in one statement (one quantity at least).
POINTS_PER_STATEMENT = 1_000_000


def measure(store: Store, scope: Scope, until_ns: int | None = None, points_per_statement: int = POINTS_PER_STATEMENT) -> None:
    """Fills work_measures for the windows of `scope`; what it held before is dropped. Idempotent.

    `until_ns`: the values of gauges are known until then (the clock, in an open window); by default `scope.to_ns`.
    """
    store.command("TRUNCATE TABLE work_measures")
    parameters: dict[str, Any] = {
        **scope.parameters(),
        "read_from_ns": scope.from_ns - STALE_NS,
        "read_to_ns": scope.to_ns + STALE_NS,
        "until_ns": scope.to_ns if until_ns is None else until_ns,
        "stale_ns": STALE_NS,
    }
    if store.query(statement(SQL, "80_any"), parameters).scalar():
        store.command("TRUNCATE TABLE work_series")
        store.command(statement(SQL, "81_series"), parameters)
        sizes = ((str(quantity), int(points)) for quantity, points in store.query(statement(SQL, "82_sizes"), parameters).rows)
        for quantities in together(sizes, points_per_statement):
            store.command(statement(SQL, "83_measures"), {**parameters, "quantities": quantities})


def together(sizes: Iterable[tuple[str, int]], points_max: int) -> list[list[str]]:
    """Neighbours whose points stay inside the limit; a quantity that alone passes it stands alone."""
    groups: list[list[str]] = []
    room = 0
    for quantity, points in sizes:
        if not groups or points > room:
            groups.append([])
            room = points_max
        groups[-1].append(quantity)
        room -= points
    return groups
