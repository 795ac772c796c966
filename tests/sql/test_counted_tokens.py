"""Tokens of engine counters against those that attempts account for, per replica and window."""

from datetime import timedelta
from typing import Any

from pipeline.attribution.rollups import SQL
from pipeline.statements import statement
from pipeline.store.client import Store
from tests.sql import rows

Row = dict[str, Any]


def at(seconds: float) -> str:
    """Seconds after the first window's start."""
    return (rows.FIRST + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S.%f")


def ran(replica: str, first: float | None, last: float | None, input: int | None, output: int | None, **more: Any) -> Row:
    times: Row = {"first_token_at": None if first is None else at(first), "last_token_at": None if last is None else at(last)}
    return rows.attempt(0, "acme", "llama", replica=replica, input_tokens=input, output_tokens=output, **times, **more)


def counter(number: int, quantity: str, replica: str, value: float, covered: float = 1.0) -> Row:
    place = {"window_from": rows.text(rows.window(number)), "run_id": rows.RUN, "quantity": quantity, "replica": replica}
    return {**place, "value": value, "covered_ns": round(covered * rows.WINDOW_S * 1_000_000_000)}


def reconciled(store: Store, attempts: list[Row], measures: list[Row]) -> list[tuple[Any, ...]]:
    """(window, replica, quantity, counted, accounted)"""
    store.insert_rows("work_attempts", attempts)
    store.insert_rows("work_measures", measures)
    store.command(statement(SQL, "47_counted_tokens"), rows.scope(2).parameters())
    found = store.query(
        "SELECT window_from, replica, toString(quantity), counted, accounted FROM counted_tokens ORDER BY window_from, replica, quantity"
    ).rows
    return [(int((row[0] - rows.FIRST).total_seconds()) // rows.WINDOW_S, *row[1:]) for row in found]


def test_what_no_span_shows_is_the_difference(store: Store) -> None:
    """Two answered requests; a third was aborted, and vLLM wrote no span of its 500 prompt tokens."""
    attempts = [ran("r0", 10, 20, 100, 11), ran("r0", 30, 40, 200, 21), rows.attempt(0, "acme", "llama", "aborted")]
    measures = [counter(0, "prompt_tokens", "r0", 800.0), counter(0, "generation_tokens", "r0", 40.0), counter(0, "preemptions", "r0", 3)]
    assert reconciled(store, attempts, measures) == [(0, "r0", "prompt_tokens", 800, 300), (0, "r0", "generation_tokens", 40, 32)]


def test_an_answer_across_a_border_is_divided_by_time_and_its_prompt_is_not(store: Store) -> None:
    measures = [counter(n, quantity, "r0", 1000) for n in range(2) for quantity in ("prompt_tokens", "generation_tokens")]
    found = reconciled(store, [ran("r0", 890, 930, 100, 41)], measures)
    assert [row[4] for row in found] == [100, 10, 0, 31]  # 10 of 40 s in the first window: floor(41 / 4)


def test_each_worker_counted_its_own_half(store: Store) -> None:
    names = ("replica", "phase", "first_at", "last_at")
    legs = [dict(zip(names, leg, strict=True)) for leg in (("p", "prefill", at(1), at(2)), ("d", "decode", at(2), at(5)))]
    measures = [counter(0, "prompt_tokens", "p", 100), counter(0, "prompt_tokens", "d", 0), counter(0, "generation_tokens", "d", 20)]
    found = reconciled(store, [ran("d", 2, 5, 100, 20, legs=legs)], measures)
    assert [row[1:] for row in found] == [
        ("d", "prompt_tokens", 0, 0), ("d", "generation_tokens", 20, 20), ("p", "prompt_tokens", 100, 100)
    ]  # fmt: skip


def test_what_the_counters_did_not_cover_is_not_compared(store: Store) -> None:
    measures = [
        counter(0, "prompt_tokens", "r0", 100, covered=0.89),
        counter(0, "prompt_tokens", "r1", 100, covered=0.9),
        counter(0, "prompt_tokens", "", 100),  # of no replica
    ]
    assert reconciled(store, [ran("r0", 1, 2, 100, 1)], measures) == [(0, "r1", "prompt_tokens", 100, 0)]


def test_one_token_and_unknown_times(store: Store) -> None:
    attempts = [ran("r0", 5, 5, 10, 1), ran("r0", None, None, 20, None), ran("r0", 7, 8, None, 4)]
    measures = [counter(0, "prompt_tokens", "r0", 30), counter(0, "generation_tokens", "r0", 5)]
    assert [row[4] for row in reconciled(store, attempts, measures)] == [30, 5]
