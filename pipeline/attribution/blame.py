"""Blame: which stage made a request slow. From work_requests to work_baselines (what is usual) and work_blames.

Only orders statements; the arithmetic is integer SQL (pipeline/attribution/sql/blame), described in docs/attribution.md.
"""

from typing import Any

from pipeline.attribution.assembly import ranked_stages
from pipeline.attribution.scope import Scope
from pipeline.statements import statement
from pipeline.store.client import Store
from schemas.stages import RANK

SQL = "pipeline.attribution.sql.blame"
SCRATCH = ("work_baselines", "work_suspects", "work_blames")
# Inside prefill or decode, whose tokens they go by.
INNER_STAGES = tuple(stage for stage, rank in RANK.items() if rank > RANK["decode"])


def blame(store: Store, scope: Scope) -> None:
    """Fills the scratch tables of blame from work_requests; what they held before is dropped.

    What is usual comes from the request's window, for stages with too few requests there from the 24 hours before as well.
    """
    for table in SCRATCH:
        store.command("TRUNCATE TABLE {table:Identifier}", {"table": table})
    parameters = _parameters(scope)
    store.command(statement(SQL, "60_baselines"), {**parameters, "source": "window", "asked": []})
    unknown = [(f"{window:%Y-%m-%d %H:%M:%S}", str(model)) for window, model in store.query(statement(SQL, "61_unknown"), parameters).rows]
    if unknown:
        store.command(statement(SQL, "60_baselines"), {**parameters, "source": "day", "asked": unknown})
    for name in ("62_suspects", "63_blames", "66_neighbours"):
        store.command(statement(SQL, name), parameters)


def roll_up(store: Store, scope: Scope) -> None:
    """Writes baselines and leak_windows of the run from work_baselines and its rows of the ledger. Once per run."""
    for name in ("64_baselines", "65_leak_windows"):
        store.command(statement(SQL, name), _parameters(scope))


def _parameters(scope: Scope) -> dict[str, Any]:
    """Stages by number: 1-based, innermost last; the number of `other`, which is no stage, is 1."""
    stages = ranked_stages()
    numbers = {stage: number for number, stage in enumerate(stages, start=2)}
    return {
        **scope.parameters(),
        "stages": stages,
        "prefill": numbers["prefill"],
        "decode": numbers["decode"],
        "inner_stages": list(INNER_STAGES),
        "inner_numbers": [numbers[stage] for stage in INNER_STAGES],
    }
