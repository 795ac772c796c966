"""Tasks: a run of three calls worked out by hand, an unfinished one, and what has no task."""

import io
import json
from typing import Any

from rich.console import Console

from pipeline.reporting.report import ReportQuery
from pipeline.reporting.tasks import read_tasks, render, to_json
from pipeline.store.client import Store
from tests.sql import rows

SECOND = 10**9
QUERY = ReportQuery(rows.window(0), rows.window(1))


def call(
    at_s: int, took_s: int, tokens: tuple[int, int, int], atoms: int, task: str = "run-1", outcome: str = "useful", **more: Any
) -> dict[str, Any]:
    """Rows of one request; tokens: input, of that cached, output. Its money lies in the next window."""
    began, ended = (f"{rows.FIRST:%Y-%m-%d %H}:00:{second:02}" for second in (at_s, at_s + took_s))
    sent, cached, out = tokens
    request = rows.request(
        0, "acme", "m", outcome, task_id=task, started_at=began, ended_at=ended,
        input_tokens=sent, input_cache_read_tokens=cached, output_tokens=out, **more,
    )  # fmt: skip
    return {
        "requests": request,
        "attempts": rows.attempt(0, "acme", "m", outcome, input_tokens=sent, generated_tokens=out) | {"request_id": request["request_id"]},
        "ledger": rows.ledger(1, "acme", "m", atoms) | {"request_id": request["request_id"]},
    }


def fill(store: Store, *calls: dict[str, Any]) -> None:
    rows.insert(store, {table: [one[table] for one in calls] for table in ("requests", "attempts", "ledger")})
    rows.insert(store, {"runs": [rows.published(0), rows.published(1)]})


def test_an_agent_run_of_three_calls(store: Store) -> None:
    """100 + 10, then 130 in of which 110 are sent again and 100 were cached, then the same sizes again: 130 sent again, none cached.

    3 s and 2 s lie between the calls; 6 USD-atoms in all, 3 of them for the answer; 110 + 150 + 150 tokens over the answer's 150.
    """
    fill(store, call(0, 2, (100, 0, 10), 1), call(5, 1, (130, 100, 20), 2), call(8, 4, (130, 0, 20), 3))
    (task,) = read_tasks(store, QUERY, 3600).tasks
    assert (task.tenant, task.task, task.requests, task.finished) == ("acme", "run-1", 3, True)
    assert (task.duration_ns, task.between_ns) == (12 * SECOND, 5 * SECOND)
    assert (task.atoms, task.answer_atoms, task.cost_amplification) == (6, 3, 2.0)
    assert (task.tokens, task.answer_tokens) == (410, 150)
    assert (task.resent_tokens, task.reloaded_tokens, task.repeats) == (110 + 130, 10 + 130, 1)


def test_calls_side_by_side_have_no_time_between_them(store: Store) -> None:
    fill(store, call(0, 9, (1, 0, 1), 1), call(2, 1, (2, 0, 1), 1), call(10, 1, (3, 0, 1), 1))
    (task,) = read_tasks(store, QUERY, 3600).tasks
    assert (task.duration_ns, task.between_ns) == (11 * SECOND, SECOND)


def test_unfinished_tasks_cost_and_do_not_count_as_finished(store: Store) -> None:
    failed = call(0, 1, (10, 0, 1), 8, task="run-2", outcome="failed")
    fill(store, call(0, 1, (10, 0, 1), 2), failed, call(1, 1, (10, 0, 1), 4, task="run-3"), call(0, 1, (10, 0, 1), 99, task=""))
    found = read_tasks(store, QUERY, 3600)
    assert [(task.task, task.finished) for task in found.tasks] == [("run-2", False), ("run-3", True), ("run-1", True)]
    assert (found.atoms, found.atoms_per_finished, found.quantiles()) == (14, 7, {"p50": 2, "p95": 4, "p99": 4})
    document = json.loads(to_json(found))
    assert (document["schema"], document["cost"], document["finished"]) == ("tokenpath.tasks/1", "0.000000000014", 2)
    assert document["each"][0]["token_amplification"] is None
    console = Console(file=io.StringIO(), width=140)
    render(found, 2, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "run-2 (unfinished)" in shown and "2 of 3 tasks finished" in shown and "1 more cost less" in shown


def test_a_request_without_counts_makes_the_amplification_unknown(store: Store) -> None:
    blank = call(0, 1, (10, 0, 1), 2)
    blank["requests"] |= {"input_tokens": None, "output_tokens": None}
    fill(store, blank, call(3, 1, (10, 0, 1), 2))
    (task,) = read_tasks(store, QUERY, 3600).tasks
    assert (task.untold, task.token_amplification, task.cost_amplification) == (1, None, 2.0)


def test_without_tasks_it_says_how_to_name_them(store: Store) -> None:
    console = Console(file=io.StringIO(), width=140)
    render(read_tasks(store, QUERY, 3600), 10, console)
    assert "gen_ai.conversation.id" in console.file.getvalue()  # type: ignore[attr-defined]
