"""Assembly: from spans to requests and attempts, in ClickHouse. This module only orders the statements (pipeline/attribution/sql/1*.sql).

    spans -> work_spans (read once, each by its profile rule) -> work_links (pointers up the traces) -> work_nodes (whose request is it)
          -> work_calls (which attempt shows it) -> work_stages, work_drafts -> work_requests, work_attempts

Every statement is set-based; nothing is held in Python. Unchanged input gives equal rows.
"""

from collections.abc import Mapping
from typing import Any

from pipeline.attribution.scope import Scope
from pipeline.statements import statement
from pipeline.store import Store
from schemas.stages import RANK, STAGES, Quality

SQL = "pipeline.attribution.sql"
SCRATCH = (
    "work_rules", "work_spans", "work_links", "work_nodes", "work_replicas", "work_calls", "work_stages", "work_drafts",
    "work_requests", "work_attempts",
)  # fmt: skip

# A pointer's reach doubles with each step: 2^20 spans above one another. What is still open then runs in a circle.
JUMPS_MAX = 20
# Inference spans of one request inside each other; the layers are five.
NESTED_MAX = 8


def ranked_stages() -> list[str]:
    """Stages by rank, the innermost last: 1-based positions are the `stage` numbers of the scratch tables.

    RANK has ties (gateway, stream, settle): the later in the request's course lies inside. `` is an inference span: no stage, but not
    the gateway's own time either, so time that only it covers counts as `other`.
    """
    ordered = sorted(STAGES, key=lambda stage: (RANK[stage], STAGES.index(stage)))
    return ["gateway", "", *(stage for stage in ordered if stage != "gateway")]


def assemble(store: Store, scope: Scope) -> None:
    """Fills work_requests and work_attempts from the spans that `scope` reads; rows of neighbouring windows are there too.

    Idempotent: it empties what it fills. Attempts that cross the border of the range that is read are cut.
    """
    for table in SCRATCH:
        store.command("TRUNCATE TABLE {table:Identifier}", {"table": table})
    run = _Run(store, scope)
    run.do("100_rules")
    run.do("101_spans")
    if run.count("102_duplicates_count"):
        run.do("103_duplicates")
    run.do("110_unmarked")
    run.jump("unmarked")
    run.do("113_marks")
    run.do("114_above")
    run.jump("above")
    run.do("115_claims")
    run.do("116_roots")
    run.do("117_tops")
    run.jump("top")
    run.do("118_nodes")
    run.do("119_nest")
    for step in range(1, NESTED_MAX):
        if not run.count("121_nested", {"step": step}):
            break
        run.do("120_nest_on", {"step": step})
    for name in ("122_replicas", "123_calls", "124_stages", "125_drafts", "126_hints", "127_requests", "128_attempts"):
        run.do(name)


class _Run:
    """The parameters that all statements share."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self.store = store
        self.parameters = {
            **scope.parameters(),
            "read_from_ns": scope.from_ns - scope.max_attempt_ns,
            "read_to_ns": scope.to_ns + max(scope.grace_ns, scope.max_attempt_ns),
            "stages": ranked_stages(),
            "qualities": [str(quality) for quality in Quality],
        }

    def do(self, name: str, more: Mapping[str, Any] | None = None) -> None:
        self.store.command(statement(SQL, name), {**self.parameters, **(more or {})})

    def count(self, name: str, more: Mapping[str, Any] | None = None) -> int:
        return int(self.store.query(statement(SQL, name), {**self.parameters, **(more or {})}).scalar())

    def jump(self, which: str) -> None:
        """Pointer jumping until no pointer of this pass is open."""
        for step in range(JUMPS_MAX):
            more = {"pass": which, "step": step}
            if not self.count("112_open", more):
                return
            self.do("111_jump", more)
