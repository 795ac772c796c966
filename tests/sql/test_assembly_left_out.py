"""Spans that no request shows are counted, per sender and reason; copies of one span are no loss."""

from pathlib import Path

import pytest

from pipeline.attribution import job
from pipeline.store.client import Store
from schemas.settings import AttributionSettings
from tests.sql.captures import assembled, configure
from tests.sql.spans import START, WINDOW, Row, chat, client_chat, gateway, span, stored, vllm_request

CACHE = """
profile = "cache"
version = 1

[match]
scope_name = ["cache"]

[[span]]
name = "request"
role = "stage"
layer = "cache"
stage = "kv_cache"
response_id = { from = ["session_id"] }
"""


def counted(store: Store, directory: Path, rows: list[Row]) -> list[tuple[str, str, int]]:
    stored(store, rows)
    assembled(store, configure(store, directory))
    return [
        (principal, reason, spans)
        for principal, reason, spans in store.query("SELECT principal, toString(reason), spans FROM work_left_out ORDER BY ALL").rows
    ]


def test_a_tenant_that_reuses_the_platforms_ids_changes_nothing_and_is_counted(store: Store, tmp_path: Path) -> None:
    rows = [
        gateway("t", 0, 100),
        chat("t", "c1", 10, 90),
        client_chat("t", "c1", 0, 5, principal="tenant/zed", output=999),  # other times
        client_chat("t", "gw", 0, 100, "c1", principal="tenant/zed", output=999),  # another parent
    ]
    assert counted(store, tmp_path, rows) == [("tenant/zed", "reused_id", 2)]
    assert store.query("SELECT tenant, output_tokens, flags FROM work_requests").rows == (
        ("acme", 20, ["replica_unlisted", "split_unknown", "unlisted"]),
    )


def test_a_tenant_that_came_first_does_not_hide_the_platforms_span(store: Store, tmp_path: Path) -> None:
    rows = [gateway("t", 0, 100, received=9), client_chat("t", "gw", 50, 60, principal="tenant/zed", received=1)]
    assert counted(store, tmp_path, rows) == [("tenant/zed", "reused_id", 1)]
    assert store.query("SELECT tenant FROM work_requests").rows == (("acme",),)


def test_of_two_tenants_the_later_one_is_counted(store: Store, tmp_path: Path) -> None:
    rows = [
        client_chat("t", "c1", 0, 100, principal="tenant/zed", received=1),
        client_chat("t", "c1", 5, 50, principal="tenant/mallory", received=2),
    ]
    assert counted(store, tmp_path, rows) == [("tenant/mallory", "reused_id", 1)]


def test_one_span_that_came_through_two_senders_is_no_loss(store: Store, tmp_path: Path) -> None:
    """A sidecar with the platform's key and an SDK with the tenant's: the same times and the same parent."""
    rows = [gateway("t", 0, 100), chat("t", "c1", 10, 90), chat("t", "c1", 10, 90, principal="tenant/acme", received=3)]
    assert counted(store, tmp_path, rows) == []


def test_an_open_end_is_another_end(store: Store, tmp_path: Path) -> None:
    rows = [gateway("t", 0, 100), chat("t", "c1", 10, None), chat("t", "c1", 10, 90, principal="tenant/acme", received=3)]
    assert counted(store, tmp_path, rows) == [("tenant/acme", "reused_id", 1)]


@pytest.mark.parametrize(("holders", "lost"), [(1, []), (2, [("platform", "ambiguous_id", 1)])])
def test_a_caches_tree_that_two_requests_may_own(store: Store, tmp_path: Path, holders: int, lost: list[tuple[str, str, int]]) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "cache.toml").write_text(CACHE)
    rows = [vllm_request(f"e{n}", "v1", n, 90, gen_ai__request__id="x") for n in range(holders)]
    assert counted(store, tmp_path, [*rows, span("k", "root", "request", 10, 20, scope="cache", session_id="x")]) == lost


def test_they_are_published_with_their_window(store: Store, tmp_path: Path) -> None:
    config_hash = configure(store, tmp_path)
    stored(store, [gateway("t", 0, 100), client_chat("t", "gw", 50, 60, principal="tenant/zed")])
    clock = iter(range(START + 3 * WINDOW, START + 4 * WINDOW)).__next__

    def run() -> str:
        return job.run(store, AttributionSettings(), config_hash, START, START + WINDOW, clock=clock).state

    assert run() == "published"
    assert store.query("SELECT principal, spans FROM left_out").rows == (("tenant/zed", 1),)
    assert run() == "unchanged"
    stored(store, [client_chat("t", "gw", 70, 80, principal="tenant/yam")])
    assert run() == "published"  # nothing else changed
    assert store.query("SELECT count(), sum(spans) FROM left_out WHERE run_id = (SELECT max(run_id) FROM left_out)").rows == ((2, 2),)
