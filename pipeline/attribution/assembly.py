"""Assembly: from spans to requests and attempts, in ClickHouse. This module only orders the statements (pipeline/attribution/sql/assembly).

    spans -> work_spans (read once, each by its profile rule; trees that share no trace with their request are joined: joining.py)
          -> work_links (pointers up the traces) -> work_nodes (whose request is it)
          -> work_calls (which attempt shows it) -> work_stages, work_drafts -> work_requests, work_attempts

Every statement is set-based; nothing is held in Python. Unchanged input gives equal rows.
"""

from collections.abc import Sequence
from typing import Any

from pipeline.attribution import joining
from pipeline.attribution.readings import LAYERS, lookups
from pipeline.attribution.scope import Scope
from pipeline.statements import statement
from pipeline.store.client import Store
from schemas.stages import RANK, STAGES, Quality

SQL = "pipeline.attribution.sql.assembly"
RESULTS = ("work_requests", "work_attempts", "work_left_out")
OF_RUN = ("work_rules", "work_spans", *joining.OF_RUN)
OF_CHUNK = ("work_facts", "work_links", "work_nodes", "work_replicas", "work_calls", "work_stages", "work_drafts", "work_bounds")
SCRATCH = (*OF_RUN, *joining.OF_ROUND, *OF_CHUNK, *RESULTS)

# Traces are independent of each other, so memory is bounded by working through them in chunks.
SPANS_PER_CHUNK = 2_500_000
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


def assemble(store: Store, scope: Scope, spans_per_chunk: int = SPANS_PER_CHUNK) -> None:
    """Fills work_requests, work_attempts and work_left_out from the spans that `scope` reads; rows of neighbouring windows are there too.

    Idempotent: it empties what it fills. Attempts that cross the border of the range that is read are cut.
    """
    run = _Run(store, scope)
    run.truncate(*SCRATCH)
    arrays = lookups(store, scope.config_hash, run.parameters["stages"])
    run.do("100_rules", "101_spans", **arrays)
    if run.count("102_duplicates_count"):
        run.do("102_reused_ids", "103_duplicates")
    if run.count("103_ranks_count", rank_rules=arrays["rank_rules"]):
        run.do("103_ranks", rank_rules=arrays["rank_rules"])
    rules = store.query(statement(SQL, "10_profile_rules"), {"config_hash": scope.config_hash}).dicts()
    joining.join(run, LAYERS, **arrays, **joining.id_slots(rules, arrays))
    chunks = max(1, -(-run.count("105_count") // spans_per_chunk))
    for chunk in range(chunks):
        run.parameters |= {"chunks": chunks, "chunk": chunk}
        run.do("104_facts", **arrays)
        _find_roots(run)
        _find_attempts(run)
        run.do("128_replicas", "129_stages", "130_drafts", "131_hints", "131_aborted", "131_bounds", "132_requests", "133_attempts")
        run.truncate(*OF_CHUNK)
    run.truncate(*OF_RUN)


class _Run:
    """The parameters that all statements share."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self.store = store
        stages, qualities = ranked_stages(), [str(quality) for quality in Quality]
        self.parameters: dict[str, Any] = {
            **scope.parameters(),
            "read_from_ns": scope.from_ns - scope.max_attempt_ns,
            "read_to_ns": scope.to_ns + max(scope.grace_ns, scope.max_attempt_ns),
            "stages": stages,
            "inference": stages.index("") + 1,
            **{stage: stages.index(stage) + 1 for stage in ("stream", "tokenize", "schedule", "prefill", "decode", "kernel")},
            "qualities": qualities,
            "derived": qualities.index(Quality.DERIVED) + 1,
        }

    def truncate(self, *tables: str) -> None:
        for table in tables:
            self.store.command("TRUNCATE TABLE {table:Identifier}", {"table": table})

    def do(self, *names: str, sql: str = SQL, **more: Any) -> None:
        for name in names:
            self.store.command(statement(sql, name), {**self.parameters, **more})

    def row(self, name: str, *, sql: str = SQL, **more: Any) -> Sequence[Any]:
        (row,) = self.store.query(statement(sql, name), {**self.parameters, **more}).rows
        return row

    def count(self, name: str, **more: Any) -> int:
        return int(self.row(name, **more)[0])

    def jump(self, which: str) -> None:
        """Pointer jumping until no pointer of this pass is open."""
        for step in range(JUMPS_MAX):
            if not self.count("112_open", **{"pass": which}, step=step):
                return
            self.do("111_jump", **{"pass": which}, step=step)


def _find_roots(run: _Run) -> None:
    run.do("110_unmarked")
    run.jump("unmarked")
    run.do("113_marks", "114_above")
    run.jump("above")
    run.do("115_claims", "116_roots", "117_tops")
    run.jump("top")
    run.do("118_nodes")


def _find_attempts(run: _Run) -> None:
    workers, views, shared = run.row("119_engines")
    if workers:
        run.do("119_legs")
    if views:
        run.do("119_views")
    run.do("119_nest")
    for step in range(1, NESTED_MAX):
        if not run.count("121_nested", step=step):
            break
        run.do("120_nest_on", step=step)
    if run.count("121_nested", step=1):
        run.do("122_wrappers", "123_nested")
    if shared:
        run.do("125_inside")
    run.do("126_calls")
