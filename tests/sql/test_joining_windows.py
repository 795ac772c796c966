"""A span that comes late dirties the windows of the request that it joins, although it shares no trace with it."""

from pathlib import Path
from typing import Any

from pipeline.attribution.windows import attribute_range, dirty_windows
from pipeline.store.client import Store
from schemas.settings import AttributionSettings
from tests.sql.captures import configure
from tests.sql.spans import START, WINDOW, Row, gateway, litellm_chat, litellm_server, vllm_request

SETTINGS = AttributionSettings()
END = WINDOW / 1_000_000  # of the first window, ms
S = 1_000_000_000


def arrive(store: Store, offset: int, received_ns: int, *spans: Row) -> None:
    """Spans of one message, as the loader's views leave them."""
    place = {"topic": "otlp_spans", "log_partition": 0, "log_offset": offset, "received_ns": received_ns}
    store.insert_rows("spans", [{**span, **place} for span in spans])
    starts = [int(float(span["started_at"]) * S) for span in spans]
    cells = {cell // WINDOW * 900 for at, span in zip(starts, spans, strict=True) for cell in (at, at + (span["duration_ns"] or 0))}
    store.insert_rows("arrivals", [place | {"window_from": cell, "spans": 1} for cell in cells])


def attribute(store: Store, config_hash: str, now_ns: int) -> None:
    attribute_range(store, SETTINGS, config_hash, START, START + 2 * WINDOW, lambda: now_ns)


def due(store: Store, config_hash: str, now_ns: int) -> list[int]:
    return [at for work in dirty_windows(store, SETTINGS, config_hash, now_ns).work for at in range(work.from_ns, work.to_ns, WINDOW)]


def requests(store: Store) -> list[tuple[Any, ...]]:
    return list(
        store.query(
            "SELECT toUnixTimestamp(window_from), output_tokens FROM requests WHERE (window_from, run_id) IN"
            " (SELECT window_from, run_id FROM current_runs) ORDER BY ALL"
        ).rows
    )


def ran(store: Store, directory: Path, *spans: Row) -> str:
    config_hash = configure(store, directory)
    arrive(store, 0, START + 2 * WINDOW, *spans)
    attribute(store, config_hash, START + 5 * WINDOW)
    assert due(store, config_hash, START + 6 * WINDOW) == []
    return config_hash


def test_an_engines_span_in_the_window_after_its_requests(store: Store, tmp_path: Path) -> None:
    config_hash = ran(
        store, tmp_path, gateway("g", END - 50, END + 100, tokenpath__request__id="x-1"), gateway("o", END + 1000, END + 1001)
    )
    assert requests(store) == [(START // S, None), ((START + WINDOW) // S, None)]
    arrive(store, 1, START + 6 * WINDOW, vllm_request("e", "v1", END + 10, END + 80, gen_ai__request__id="chatcmpl-x-1-0"))
    assert due(store, config_hash, START + 7 * WINDOW) == [START, START + WINDOW]
    attribute(store, config_hash, START + 7 * WINDOW)
    assert requests(store) == [(START // S, 20), ((START + WINDOW) // S, None)]


def test_a_call_that_began_in_the_window_after_its_requests(store: Store, tmp_path: Path) -> None:
    config_hash = ran(
        store, tmp_path, litellm_server("g", END - 50, END + 100), litellm_chat("g", "c1", END + 5, END + 90, gen_ai__response__id="r-1")
    )
    arrive(store, 1, START + 6 * WINDOW, vllm_request("e", "v1", END + 10, END + 80, gen_ai__request__id="r-1"))
    assert due(store, config_hash, START + 7 * WINDOW) == [START, START + WINDOW]


def test_a_gateways_span_in_the_window_before_its_engines(store: Store, tmp_path: Path) -> None:
    config_hash = ran(store, tmp_path, vllm_request("e", "v1", END + 10, END + 80, gen_ai__request__id="x-1"))
    assert requests(store) == [((START + WINDOW) // S, 20)]
    # Its end reaches into the engine's window, so both are dirty by its arrival alone; a clock that differs hides that.
    arrive(store, 1, START + 6 * WINDOW, gateway("g", END - 900, END - 500, tokenpath__request__id="x-1"))
    assert due(store, config_hash, START + 7 * WINDOW) == [START, START + WINDOW]
    attribute(store, config_hash, START + 7 * WINDOW)
    assert requests(store) == [(START // S, 20)]


def test_another_id_reaches_nothing(store: Store, tmp_path: Path) -> None:
    config_hash = ran(store, tmp_path, gateway("g", END - 50, END + 100, tokenpath__request__id="x-1"))
    arrive(store, 1, START + 6 * WINDOW, vllm_request("e", "v1", END + 10, END + 80, gen_ai__request__id="x-2"))
    assert due(store, config_hash, START + 7 * WINDOW) == [START + WINDOW]
    arrive(store, 2, START + 6 * WINDOW, vllm_request("f", "v1", END + 5000, END + 5001, gen_ai__request__id="x-3", principal="tenant/zed"))
    assert due(store, config_hash, START + 7 * WINDOW) == [START + WINDOW]
