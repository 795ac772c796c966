"""From rated windows to a FOCUS file."""

import csv
import json
import re
from pathlib import Path

import pytest

from pipeline.attribution.rollups import roll_up
from pipeline.billing import focus
from pipeline.billing.focus import export_focus
from pipeline.billing.focus_lint import lint_focus
from pipeline.errors import CheckFailed, ConfigurationError
from pipeline.store.client import Store
from tests.sql import rows

HOSTILE = '=1+1,"a"\r\nb'
BILLS = "Example Inference Ltd"


def month(store: Store) -> None:
    """Two windows of 2026-11-30 closed, one open; from the second window on the list price of output is higher."""
    risen = rows.ns(rows.window(1))
    rows.insert(
        store,
        {
            "config_versions": [{"config_hash": rows.CONFIG, "currency": "USD", "recorded_at": rows.text(rows.FIRST)}],
            "tenants": [{"config_hash": rows.CONFIG, "tenant": "acme", "name": "Acme Ltd", "billing_account": "acme"}],
            "token_prices": [
                rows.price("llama", "input_uncached", "0.60"),
                rows.price("llama", "output_text", "2.40", to_ns=risen),
                rows.price("llama", "output_text", "3.00", from_ns=risen),
                rows.price("llama", "output_text", "2.00", tenant=HOSTILE, sku="deal"),
            ],
            "billable": [rows.billable("useful", "all")],
            "attempts": [
                rows.attempt(0, "acme", "llama", input_uncached_tokens=1_000_001, output_text_tokens=10),
                rows.attempt(1, "acme", "llama", output_text_tokens=5),
                rows.attempt(1, "acme", "llama", "failed", output_text_tokens=77),
                rows.attempt(1, HOSTILE, "llama", output_text_tokens=3),
                rows.attempt(1, "acme", "mystery", output_text_tokens=8),
                rows.attempt(2, "acme", "llama", output_text_tokens=1000),
            ],
            "runs": [rows.published(0), rows.published(1), rows.published(2, kind="provisional")],
        },
    )
    roll_up(store, rows.scope(3))


def test_a_month_becomes_one_row_per_tenant_meter_day_and_price(store: Store, tmp_path: Path) -> None:
    month(store)
    target = tmp_path / "focus.csv"
    written = export_focus(store, "2026-11", target, provider=BILLS)

    with target.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert lint_focus(found) == []
    columns = ("SubAccountId", "SkuMeter", "ChargePeriodStart", "ConsumedQuantity", "ContractedUnitPrice", "BilledCost", "ListCost")
    day = "2026-11-30T00:00:00Z"
    assert sorted(tuple(row[name] for name in columns) for row in found) == [
        (HOSTILE, "Output Tokens", day, "3.0", "2.0", "0.000006", "0.000009"),
        ("acme", "Input Tokens", day, "1000001.0", "0.6", "0.6000006", "0.6000006"),
        ("acme", "Output Tokens", day, "10.0", "2.4", "0.000024", "0.000024"),
        ("acme", "Output Tokens", day, "5.0", "3.0", "0.000015", "0.000015"),
    ]
    assert (written.rows, written.billed, written.currency) == (4, "0.6000456", "USD")
    assert written.unpriced == (("acme", "mystery", "output_text", 8),)
    assert (written.closed_windows, written.provisional_windows) == (2, 1)
    assert "Unpriced" in written.text() and "still open" in written.text()
    assert json.loads(json.dumps(written.as_dict()))["unpriced"] == [
        {"tenant": "acme", "model": "mystery", "bucket": "output_text", "tokens": 8}
    ]
    before = target.read_bytes()
    export_focus(store, "2026-11", target, provider=BILLS)
    assert target.read_bytes() == before


def test_a_month_ends_at_midnight_utc(store: Store, tmp_path: Path) -> None:
    month(store)
    later = (24 - rows.FIRST.hour) * 4  # the first window of December
    run_id = rows.RUN + 1
    rows.insert(
        store,
        {"attempts": [rows.attempt(later, "acme", "llama", run_id=run_id, output_text_tokens=2)], "runs": [rows.published(later, run_id)]},
    )
    roll_up(store, rows.scope(later + 1, run_id))
    assert rows.text(rows.window(later)) == "2026-12-01 00:00:00"
    assert export_focus(store, "2026-11", tmp_path / "focus.csv", provider=BILLS).rows == 4
    written = export_focus(store, "2026-12", tmp_path / "focus.csv", provider=BILLS)
    assert (written.rows, written.billed) == (1, "0.000006")


def test_an_empty_store_and_an_empty_month_give_a_header_and_say_where_data_is(store: Store, tmp_path: Path) -> None:
    rows.insert(store, {})
    target = tmp_path / "focus.csv"
    assert "nothing was attributed yet" in export_focus(store, "2026-11", target, provider=BILLS).text()
    assert target.read_text(encoding="utf-8").count("\n") == 1
    month(store)
    assert "data in 2026-11" in export_focus(store, "2025-01", target, provider=BILLS).text()


def test_a_broken_row_stops_the_export_and_leaves_the_old_file(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    month(store)
    target = tmp_path / "focus.csv"
    target.write_text("old")
    monkeypatch.setattr(focus, "SERVICE_NAME", "")
    with pytest.raises(CheckFailed, match="ServiceName: must not be null"):
        export_focus(store, "2026-11", target, provider=BILLS)
    assert target.read_text() == "old"


def test_what_cannot_be_exported_is_refused_in_one_line(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=re.escape("use 1.2")):
        export_focus(store, "2026-11", tmp_path / "focus.csv", provider=BILLS, version="9.9")  # type: ignore[arg-type]
