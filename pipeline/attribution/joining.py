"""Joining: trees of spans that share no trace with their request are hung under it, by ids, before requests are assembled.

An orphan is a span of the platform that carries an id and has no request or call of the platform above it. It joins the one request of
the platform that holds the same id within its interval, on the same model. Clients choose many of these ids, so nothing less will do:
where two requests may be meant the orphan stays alone, flagged `ambiguous_id`. Spans of tenants neither join nor are joined by ids.

    work_spans -> work_orphans -> (a round for each kind of holder: work_matches -> work_adoptions -> work_moves) -> work_spans

What is joined gets the trace of its request, so nothing after this knows of it. Without orphans it costs one look at the spans.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

SQL = "pipeline.attribution.sql.joining"
OF_RUN = ("work_orphans", "work_adoptions")
OF_ROUND = ("work_matches", "work_moves", "work_moved", "work_links")

NAMES = ("response_id", "client_request_id", "call_id")
KEYS = ("join_key",)
MODELS = ("model", "response_model")

# Clocks of two hosts may differ by so much.
SKEW_NS = 1_000_000_000
# An id that more spans hold is no name of anything, and comparing each with each would not be linear.
HOLDERS_MAX = 64


class Run(Protocol):
    """What assembly's statements share."""

    parameters: dict[str, Any]

    def truncate(self, *tables: str) -> None: ...
    def do(self, *names: str, sql: str, **more: Any) -> None: ...
    def row(self, name: str, *, sql: str, **more: Any) -> Sequence[Any]: ...
    def jump(self, which: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Round:
    """Orphans of these layers look for a holder in one layer; `requests`: or a request span. `by_key`: only by the stack's own ids.
    `records`: also where a record, not a trace, holds the id."""

    orphans: tuple[str, ...]
    holder: str
    requests: bool = False
    by_key: bool = False
    records: bool = True


# A record first gives way to the request of which it tells. Then the outermost holder first; a client's view goes above its request, so
# that is known before anything else looks for it.
ROUNDS = (
    Round(("none",), "gateway", requests=True, records=False),
    Round(("client",), "gateway", requests=True),
    Round(("router", "engine", "cache"), "gateway", requests=True),
    Round(("engine", "cache"), "router"),
    Round(("engine",), "engine", by_key=True),
    Round(("cache",), "engine"),
)


def id_slots(rules: Iterable[Mapping[str, Any]], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Which slots of which rules are ids: `id_kinds` has bit 0 for NAMES, 1 for KEYS, 2 for MODELS. `arrays`: of readings.py."""
    first = dict(zip(arrays["first_keys"], arrays["first_slots"], strict=True))
    number = {key: n for n, key in enumerate(arrays["keys"], 1)}
    kinds: dict[int, int] = {}
    for rule in rules:
        for one in rule["fields"]:
            bit = next((bit for bit, fields in enumerate((NAMES, KEYS, MODELS)) if one["field"] in fields), None)
            if bit is not None:
                for key in (key for key in one["keys"] if key in number):
                    slot = ((rule["rank"] + 1) << 32) + first[((rule["rank"] + 1) << 16) + number[key]]
                    kinds[slot] = kinds.get(slot, 0) | 1 << bit
    return {"id_slots": list(kinds), "id_kinds": list(kinds.values())}


def join(run: Run, layers: Sequence[str], **arrays: Any) -> None:
    """Rewrites trace and parent of what joins, in work_spans. Leaves in work_adoptions what stays alone although somebody holds its id."""
    record_rules = list(run.row("139_record_rules", sql=SQL)[0])
    more = {**arrays, "record_rules": record_rules, "skew_ns": SKEW_NS, "holders_max": HOLDERS_MAX, "sql": SQL}
    run.do("140_orphans", **more)
    orphans, with_parent = run.row("141_orphans_count", sql=SQL)
    if with_parent:
        run.do("142_above", sql=SQL)
        run.jump("orphan")
        run.do("143_below", sql=SQL)
        run.truncate("work_links")
    for number, one in enumerate(ROUNDS if orphans else ()):
        asked = {"round": number, "orphans": list(one.orphans), "by_key": int(one.by_key)}
        holders = {"holder_layer": layers.index(one.holder), "requests": int(one.requests), "records": int(one.records)}
        if run.row("144_waiting", sql=SQL, **asked)[0]:
            _join(run, **more, **asked, **holders)
    if orphans:
        run.do("155_left_out", sql=SQL)


def _join(run: Run, **more: Any) -> None:
    run.do("145_matches", **more)
    if run.row("146_matches_count", sql=SQL)[0]:
        run.do("147_trees", "148_holders", **more)
        run.jump("tree")
        run.jump("holder")
        run.do("149_adoptions", "150_moves", "151_hindered", "152_moved", "153_left", "154_arrived", **more)
    run.truncate(*OF_ROUND)
