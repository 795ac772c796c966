"""Report, status and FOCUS read the same beside a running store, through its HTTP front, as on the engine itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr

from pipeline.attribution.rollups import roll_up
from pipeline.billing.focus import export_focus
from pipeline.reporting.quality import read_quality
from pipeline.reporting.report import ReportQuery, build_report
from pipeline.reporting.status import build_status
from pipeline.serving.embedded import EmbeddedEngine
from pipeline.serving.endpoint import Reader, endpoint_app
from pipeline.store.client import Store, open_store
from schemas.settings import Permission, StoreSettings
from tests.http_server import serving
from tests.sql import rows
from tests.sql.captures import configure
from tests.sql.spans import litellm_chat, litellm_server, stored, vllm_request


@dataclass(frozen=True)
class Known:
    principal: str


def authenticate(key: str | None, needs: Permission) -> Reader | None:
    if key not in ("ops-key", "root-key") or (needs == "admin" and key != "root-key"):
        return None
    return Known("platform")


@pytest.fixture(params=["ops-key", "root-key"])
def beside(store: Store, request: pytest.FixtureRequest) -> Iterator[Store]:
    """Another process's view: a key that may read, and the admin's."""
    with serving(endpoint_app(EmbeddedEngine(store.path), authenticate)) as port:
        front = open_store(StoreSettings(url=f"http://default@127.0.0.1:{port}/tokenpath", password=SecretStr(request.param)))
        yield front
        front.close()


def test_every_statement_of_report_status_and_export_passes_the_front(store: Store, beside: Store, tmp_path: Path) -> None:
    rows.insert(
        store,
        {
            "config_versions": [{"config_hash": rows.CONFIG, "currency": "USD", "recorded_at": rows.text(rows.FIRST)}],
            "token_prices": [rows.price("llama", "output_text", "2.40")],
            "billable": [rows.billable("useful", "all")],
            "requests": [
                rows.request(0, "acme", "llama", e2e_ns=5, output_tokens=9, stage_ns={"decode": 4}, stage_quality={"decode": "span"})
            ],
            "attempts": [rows.attempt(0, "acme", "llama", output_text_tokens=9)],
            "ledger": [rows.ledger(0, "acme", "llama", 10**15), rows.ledger(0, "", "", 3, **{"class": "idle"})],
            "pools": [rows.pool(0, "replica-0", 10**15 + 3)],
            "runs": [rows.published(0)],
        },
    )
    roll_up(store, rows.scope(1))
    for query in (
        ReportQuery(rows.FIRST, rows.window(1)),
        ReportQuery(rows.FIRST, rows.window(1), "hour", "acme", "llama", rows.window(40)),
        ReportQuery(rows.window(50), rows.window(60)),
    ):
        assert build_report(beside, query) == build_report(store, query)
    assert build_status(beside, [], 0) == build_status(store, [], 0)
    assert build_report(beside, ReportQuery(rows.FIRST, rows.window(1))).totals.cost.direct == "1000"
    assert export_focus(beside, "2026-11", tmp_path / "a.csv", provider="Example").rows == 1
    export_focus(store, "2026-11", tmp_path / "b.csv", provider="Example")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    store.command("TRUNCATE TABLE requests")  # the quantiles now come from the sketches
    assert build_report(beside, ReportQuery(rows.FIRST, rows.window(1))) == build_report(store, ReportQuery(rows.FIRST, rows.window(1)))


def test_the_quality_of_sources_passes_the_front(store: Store, beside: Store, tmp_path: Path) -> None:
    configure(store, tmp_path)
    stored(store, [litellm_server("a", 0, 9), litellm_chat("a", "c1", 1, 8), vllm_request("a", "v1", 2, 7, "c1")])
    rows.insert(
        store,
        {
            "requests": [rows.request(0, "acme", "m", trace_id="a".ljust(16, "."), flags=["split_unknown"])],
            "runs": [rows.published(0)],
            "left_out": [rows.left_out(0, 2)],
            "rejected_spans": [{"principal": "platform", "service_name": "b", "received_ns": rows.ns(rows.FIRST)}],
        },
    )
    found = read_quality(beside, ReportQuery(rows.FIRST, rows.window(1)))
    assert found == read_quality(store, ReportQuery(rows.FIRST, rows.window(1)))
    assert [(source.service, source.read, source.completeness.requests, source.rejected_spans) for source in found.sources] == [
        ("", 2, 1, 0), ("engine-a", 1, 1, 0), ("b", 0, 0, 1),
    ]  # fmt: skip
