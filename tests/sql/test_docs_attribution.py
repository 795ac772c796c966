"""The examples of docs/attribution.md, recomputed by the product from the facts that the page states."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.attribution import blame, journal, money
from pipeline.statements import statement
from pipeline.store.client import Store
from tests.oracle.blame import Request
from tests.sql import rows
from tests.sql.test_blame import MS, stored

PAGE = (Path(__file__).parents[2] / "docs" / "attribution.md").read_text(encoding="utf-8")
USUAL = {"gateway": 5 * MS, "schedule": 0, "prefill": 100 * MS, "other": 0}
LATE = {"gateway": 5 * MS, "schedule": 420 * MS, "prefill": 470 * MS, "other": 5 * MS}


def table(*header: str) -> list[list[str]]:
    """Cells of the page's table with this header."""
    lines = PAGE.splitlines()
    begin = lines.index(f"| {' | '.join(header)} |") + 2
    found: list[list[str]] = []
    for line in lines[begin:]:
        if not line.startswith("|"):
            return found
        found.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return found


def number(cell: str) -> int:
    return int(re.sub(r"[^0-9]", "", cell))


def attempts() -> list[dict[str, Any]]:
    aborted = rows.attempt(
        0, "acme", "m", "aborted", request_id="aborted", attempt_id="aborted", input_tokens=1200, input_cache_read_tokens=200,
        output_tokens=100, delivered_tokens=60, expected_hit_tokens=300, best_hit_tokens=700, last_token_at=rows.text(rows.FIRST),
    )  # fmt: skip
    late = rows.attempt(0, "acme", "m", "late", request_id="late", attempt_id="late", input_tokens=4000, output_tokens=10)
    return [aborted, late]


def test_the_examples_are_what_the_product_computes(store: Store) -> None:
    usual = [
        Request(f"u{n}", own_ns=own, early_ns=own, input_tokens=1000, output_tokens=10)
        for n in range(30)
        for own in [{**USUAL, "schedule": (10 if n < 10 else 20 if n < 21 else 60) * MS}]
    ]
    late = replace(usual[0], request_id="late", outcome="late", missed="ttft", own_ns=LATE, early_ns=LATE, input_tokens=4000)
    store.insert_rows("work_requests", [stored(request) for request in [*usual, late]])
    blame.blame(store, rows.scope(1))
    ((stage, excesses),) = store.query("SELECT stage, excesses FROM work_blames").rows
    told = table("stage", "took", "usual", "excess")
    assert [(name, number(took) * MS) for name, took, _, _ in told] == list(LATE.items())
    assert {name: number(excess) * MS for name, _, _, excess in told if number(excess)} == excesses
    assert all(number(took) - number(typical) == number(excess) for _, took, typical, excess in told)
    assert f"blamed on `{stage}`" in PAGE

    scope = rows.scope(1)
    share = {"window_from": rows.text(rows.FIRST), "resource": "r", "tier": "B"}
    store.insert_rows("work_attempts", attempts())
    store.insert_rows(
        "work_shares", [{**share, "attempt_id": name, "atoms": atoms} for name, atoms in (("aborted", 10_000), ("late", 5_000))]
    )
    store.insert_rows("work_pools", [rows.pool(0, "r", 17_000, busy_atoms=15_000, idle_atoms=2_000)])
    for name in ("25_ledger_attempts", "26_ledger_nobody", "26_ledger_idle"):
        store.command(statement(money.SQL, name), {**scope.parameters(), "until_ns": scope.to_ns})
    money.check_conservation(store)
    classes = dict(store.query("SELECT toString(class), atoms FROM work_ledger WHERE attempt_id = 'aborted'").rows)
    assert {name: number(atoms) for name, _, _, atoms in table("class", "weight", "of 10,000 atoms", "atoms")} == classes

    store.command(statement(journal.SQL, "55_copy"), {**scope.parameters(), "source": "work_ledger", "target": "ledger"})
    blame.roll_up(store, scope)
    cells = store.query("SELECT class, stage, sum(atoms) AS cost FROM leak_windows GROUP BY class, stage ORDER BY cost DESC").rows
    shown = [(name, at, number(atoms)) for name, at, atoms in table("class", "stage", "atoms")]
    assert shown[:-1] == [tuple(row) for row in cells]
    assert shown[-1] == ("all", "", sum(row[2] for row in cells)) == ("all", "", 17_000)
