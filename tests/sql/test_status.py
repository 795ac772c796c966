"""The status of the whole path, read from the store."""

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from pipeline.attribution.rollups import roll_up
from pipeline.errors import CheckFailed
from pipeline.reporting.quality import as_document, read_quality
from pipeline.reporting.report import ReportQuery
from pipeline.reporting.status import LogPosition, Status, build_status, check_conserved, log_positions, render, to_json
from pipeline.store.client import Store
from schemas.log import TopicPartition
from tests.sql import rows


def printed(status: Status) -> str:
    written = io.StringIO()
    render(status, Console(file=written, width=100, force_terminal=False))
    return written.getvalue()


def arrival(number: int, offset: int, fresh_ms: int = 40, topic: str = "otlp_spans") -> dict[str, Any]:
    received = rows.window(number) + timedelta(minutes=1)
    return {
        "window_from": rows.text(rows.window(number)), "topic": topic, "log_partition": 0, "log_offset": offset, "spans": 1,
        "received_ns": rows.ns(received), "stored_at": (received + timedelta(milliseconds=fresh_ms)).strftime("%Y-%m-%d %H:%M:%S.%f"),
    }  # fmt: skip


def test_an_empty_store_is_healthy_and_says_what_to_do(store: Store) -> None:
    status = build_status(store, [], None)
    assert status.healthy
    assert json.loads(to_json(status)) == {
        "log": [],
        "dead_letters": None,
        "freshness_ms": {"p50": None, "p99": None},
        "windows": {"published": 0, "provisional": 0, "dirty": 0, "failed": 0},
        "conservation": {"difference_atoms": "0"},
        "store": {"spans": 0, "bytes_per_span": None},
        "loader_stands": False,
    }
    assert "nothing attributed yet" in printed(status)


def test_quality_is_in_the_document_when_it_is_asked_for(store: Store) -> None:
    quality = as_document(read_quality(store, ReportQuery(rows.FIRST, rows.FIRST + timedelta(days=1))))
    document = json.loads(to_json(build_status(store, [], 3), quality))
    assert document["quality"] == {
        "from": "2026-11-30T10:00:00Z", "to": "2026-12-01T10:00:00Z", "sampled_one_in": 1, "sources": [], "left_out": {},
    }  # fmt: skip


def test_a_window_is_dirty_when_a_message_above_its_watermark_touches_it_or_no_run_has_read_it(store: Store) -> None:
    watermark = {"otlp_spans/0": 10}
    later = rows.FIRST + timedelta(hours=6)
    rows.insert(
        store,
        {
            "runs": [
                rows.published(0, watermark=watermark),
                rows.published(1, watermark=watermark),
                rows.published(2, watermark=watermark),
                rows.published(2, rows.RUN + 1, later, watermark={"otlp_spans/0": 13}, state="unchanged"),
                rows.published(3, kind="provisional", watermark={"otlp_spans/0": 99}),
                rows.published(3, rows.RUN + 2, later, state="failed"),
                rows.published(4, rows.RUN + 3, later, state="started"),
            ],
            # 0: read. 1: news. 2: news that a run found to change nothing. 5: nobody read it, in two messages.
            "arrivals": [arrival(0, 9), arrival(1, 10), arrival(2, 12), arrival(3, 20), arrival(5, 1), arrival(5, 2, topic="mine")],
        },
    )
    status = build_status(store, [], 0)
    assert (status.published, status.provisional, status.dirty, status.failed) == (3, 1, 2, 1)


def test_freshness_is_the_nearest_rank_over_messages_not_over_the_windows_that_they_touch(store: Store) -> None:
    rows.insert(store, {"arrivals": [arrival(0, offset, fresh_ms=offset) for offset in range(1, 101)]})
    rows.insert(
        store, {"arrivals": [{**arrival(0, 100, fresh_ms=100), "window_from": rows.text(rows.window(number))} for number in (1, 2)]}
    )
    status = build_status(store, [], 0)
    assert (status.freshness_p50_ms, status.freshness_p99_ms) == (50, 99)


def test_a_difference_of_one_atom_between_pools_and_ledger_is_unhealthy(store: Store) -> None:
    rows.insert(
        store, {"ledger": [rows.ledger(0, "acme", "llama", 5)], "pools": [rows.pool(0, "replica-0", 5)], "runs": [rows.published(0)]}
    )
    roll_up(store, rows.scope(1))
    assert build_status(store, [], 0).healthy
    rows.insert(store, {"pools": [rows.pool(0, "replica-1", 1)]})
    broken = build_status(store, [], 0)
    assert (broken.healthy, broken.difference_atoms) == (False, 1)
    assert "BROKEN by 1 atoms" in printed(broken)
    with pytest.raises(CheckFailed, match="nothing is billed"):
        check_conserved(store)


def test_lag_dead_letters_and_a_standing_loader_are_shown(store: Store) -> None:
    status = build_status(store, [LogPosition("otlp_spans", 0, 1200, 200)], 3, loader_stands=True)
    assert not status.healthy
    assert json.loads(to_json(status))["log"] == [
        {"topic": "otlp_spans", "partition": 0, "end_offset": 1200, "committed_offset": 200, "lag": 1000}
    ]
    for text in ("1,000", "Dead letters:  3", "STANDS"):
        assert text in printed(status)


def test_positions_come_from_the_log_sorted_and_with_zero_where_nothing_was_committed() -> None:
    class Log:
        def end_offsets(self) -> dict[TopicPartition, int]:
            return {TopicPartition("otlp_spans", 1): 7, TopicPartition("otlp_spans", 0): 5}

        def committed(self) -> dict[TopicPartition, int]:
            return {TopicPartition("otlp_spans", 0): 5}

    positions = log_positions(Log())  # type: ignore[arg-type]
    assert positions == (LogPosition("otlp_spans", 0, 5, 5), LogPosition("otlp_spans", 1, 7, 0))
    assert [position.lag for position in positions] == [0, 7]
