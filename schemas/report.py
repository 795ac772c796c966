"""The report `tokenpath.report/1`: what was spent, for whom, on what, and how quick the answers were (CONTRACTS 5).

Money is decimal text of the currency, exact to the atom; times are integer ns; what nobody knows is null, never 0.
"""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA = "tokenpath.report/1"

GroupBy = Literal["tenant", "model", "hour"]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RequestCounts(Frozen):
    total: int
    useful: int
    late: int
    aborted: int
    failed: int
    blocked: int
    rejected: int
    unmetered: int


class TokenCounts(Frozen):
    """Null: no request of the group reports it; else the sum over those that do."""

    input: int | None
    output: int | None
    input_uncached: int | None
    input_cache_read: int | None
    input_cache_write: int | None
    output_text: int | None
    output_reasoning: int | None
    generated: int | None
    delivered: int | None
    delivered_assumed: int | None
    useful: int


class UsageCounts(Frozen):
    """Requests by how their token counts are known."""

    reported: int
    estimated: int
    unknown: int
    split_unknown: int


class Cost(Frozen):
    """The cost book. `direct` = `useful` + `waste`, the waste that the tenant answers for (its classes sum to it).

    `platform_paid`: waste of its attempts that the platform answers for (crashes, preemption, retries); not in `direct`.
    `fully_loaded`: `direct` and a share, by busy atoms, of all that no tenant answers for.
    """

    direct: str | None
    useful: str | None
    waste: str | None
    platform_paid: str | None
    fully_loaded: str | None
    by_class: dict[str, str | None]


class UnitCost(Frozen):
    """Ratio of sums: cost times 1,000,000 over useful tokens; null without a useful token."""

    direct: str | None
    fully_loaded: str | None


class Cache(Frozen):
    """`hit_ratio` = cache reads / input over requests that report both. `saved_gross` is an estimate outside the ledger."""

    hit_ratio: float | None
    saved_gross: str | None
    kind: Literal["estimate"] = "estimate"


class Quantiles(Frozen):
    """Nearest rank. `kind` sketch: merged, off by at most 0.5%. Below 100 requests the tail is one or two requests: show n."""

    n: int
    p50: int | None
    p95: int | None
    p99: int | None
    p99_9: int | None
    kind: Literal["exact", "sketch"] | None


class StageQuantiles(Quantiles):
    quality: tuple[str, ...]


class Latency(Frozen):
    ttft_ns: Quantiles
    tpot_ns: Quantiles
    e2e_ns: Quantiles
    queue_ns: Quantiles


class Slo(Frozen):
    met: int
    of: int
    ratio: float | None


class Figures(Frozen):
    requests: RequestCounts
    attempts: int
    failed_attempts: int
    tokens: TokenCounts
    usage: UsageCounts
    cost: Cost
    cost_per_million_useful_tokens: UnitCost
    charged: str | None
    waste_ratio: float | None
    cache: Cache
    latency: Latency
    stages: dict[str, StageQuantiles]
    slo: Slo


class Group(Frozen):
    """One tenant, model or hour (`key`) and its figures."""

    key: str
    figures: Figures


class LeakCell(Frozen):
    """What one cost class cost at one stage. Without a filter all cells sum to the pools; those that are not `useful` are the leak."""

    cost_class: str
    stage: str
    cost: str


class Blamed(Frozen):
    """Slow requests that are blamed on `stage`, where `measure` measures, and what that stage took more than usual, together.

    `incomparable`: of those, requests of whose stages nobody knows what is usual; they are blamed on `other`.
    """

    tenant: str
    model: str
    measure: Literal["ttft", "tpot", "e2e"]
    stage: str
    requests: int
    excess_ns: int
    incomparable: int


class Conservation(Frozen):
    """Pools against everything the report's tables hold, whatever the filter: the difference is 0 or something is broken."""

    pools_atoms: str
    ledger_atoms: str
    difference_atoms: str


class UnaccountedTokens(Frozen):
    """What engine counters counted beyond what attempts account for: work that left no span. Null: nobody scraped them."""

    prompt: int | None
    generation: int | None


class DataQuality(Frozen):
    unknown_tenant_ratio: float | None
    rejected_spans: int
    dead_letters: int | None
    unpriced_replicas: tuple[str, ...]
    unpriced_models: tuple[str, ...]
    left_out: dict[str, int]
    unaccounted_tokens: UnaccountedTokens
    flags: dict[str, int]


class Range(Frozen):
    """Half open."""

    from_at: datetime
    to_at: datetime


class Report(Frozen):
    """`range` is `requested` widened to whole windows. `available`: where published windows are, null if there is none.

    `pools`: what each pool of the range cost, whatever the filter; they sum to `conservation.pools_atoms`.
    """

    by: GroupBy
    range: Range
    requested: Range
    available: Range | None
    currency: str | None
    as_of: datetime | None
    method: str | None
    useful_policy: str | None
    windows: int
    provisional_windows: int
    config_hash: str | None
    groups: tuple[Group, ...]
    unallocated: dict[str, str | None]
    pools: dict[str, str | None] = {}
    totals: Figures
    leak: tuple[LeakCell, ...]
    misses: tuple[Blamed, ...]  # of an objective
    tail: tuple[Blamed, ...]  # the slowest hundredth of each window, tenant and model
    conservation: Conservation
    data_quality: DataQuality
