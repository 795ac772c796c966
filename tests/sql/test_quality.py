"""What `status --quality` says of each source: what is read, how complete it is, what is wrong with it."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipeline.reporting.quality import Quality, Source, as_document, read_quality, render
from pipeline.reporting.report import ReportQuery
from pipeline.store.client import Store
from tests.sql import rows
from tests.sql.captures import assembled, configure
from tests.sql.spans import Row, litellm_chat, litellm_server, span, stored, vllm_request

DAY = ReportQuery(rows.FIRST - timedelta(hours=1), rows.FIRST + timedelta(hours=23))
PROXY = {"service.name": "proxy"}


def world() -> list[Row]:
    return [
        litellm_server("whole", 0, 100, resource=PROXY),
        litellm_chat("whole", "c1", 10, 90, resource=PROXY),
        vllm_request("whole", "v1", 20, 80, "c1", gen_ai__latency__time_in_queue=0.001),
        litellm_server("cached", 0, 100, resource=PROXY, defects=["cut"]),
        litellm_chat("cached", "c1", 10, 90, resource=PROXY, input=5, gen_ai__usage__cache_read__input_tokens=9),
        # The same call again under a new id, and a count below 0 (-1 only says that it is not known).
        vllm_request("twice", "v1", 0, 50, input=-7),
        vllm_request("twice", "v2", 0, 50, input=-7),
        vllm_request("minus1", "v1", 0, 50, input=-1),
        span("strange", "s1", "GET /", 0, 5, scope="web", principal="tenant/acme", resource={"service.name": "shop"}),
        span("early", "s1", "GET /", -2 * 3_600_000, 0, scope="web", resource={"service.name": "yesterday"}),
    ]


@pytest.fixture
def known(store: Store, tmp_path: Path) -> Store:
    """Spans, and the requests that one published run shows of them."""
    config_hash = configure(store, tmp_path)
    stored(store, world())
    assembled(store, config_hash)
    for table in ("requests", "attempts"):
        columns = [
            name
            for (name,) in store.query(f"SELECT name FROM system.columns WHERE table = '{table}' AND database = currentDatabase()").rows
        ]
        names = ", ".join(columns)
        store.command(f"INSERT INTO {table} ({names}) SELECT {names} FROM work_{table}")
    rows.insert(
        store,
        {
            "runs": [rows.published(0, 7)],
            "left_out": [rows.left_out(0, 3, run_id=7), rows.left_out(0, 9, run_id=6)],
            "rejected_spans": [
                {"principal": "platform", "service_name": "proxy", "received_ns": rows.ns(rows.FIRST), "reason": "start_out_of_range"}
            ],
        },
    )
    return store


def of(quality: Quality, service: str) -> Source:
    (found,) = [source for source in quality.sources if source.service == service]
    return found


def test_every_source_says_what_of_it_is_read_and_by_which_profile(known: Store) -> None:
    quality = read_quality(known, DAY)
    assert quality.one_in == 1
    told = {(s.service, s.principal): (s.spans, s.read, s.ignored) for s in quality.sources}
    assert told == {("proxy", "platform"): (4, 4, 0), ("engine-a", "platform"): (4, 4, 0), ("shop", "tenant/acme"): (1, 0, 0)}
    assert of(quality, "engine-a").profiles == ("vllm",) and of(quality, "shop").profiles == ()
    assert "schedule" in of(quality, "engine-a").stages and "schedule" not in of(quality, "proxy").stages


def test_completeness_and_flags_are_of_the_requests_in_the_sources_traces(known: Store) -> None:
    quality = read_quality(known, DAY)
    proxy, engine = of(quality, "proxy").completeness, of(quality, "engine-a").completeness
    assert (proxy.requests, proxy.model, proxy.usage, proxy.tenant, proxy.engine) == (2, 2, 2, 2, 1)
    assert (engine.requests, engine.tenant, engine.engine) == (4, 1, 4)
    assert of(quality, "proxy").flags["cached_over_input"] == 1 and "cached_over_input" not in of(quality, "engine-a").flags
    assert of(quality, "shop").completeness.requests == 0


def test_impossible_values_are_counted_at_their_source(known: Store) -> None:
    quality = read_quality(known, DAY)
    assert of(quality, "engine-a").defects == {"duplicate": 1, "negative_count": 2}
    assert of(quality, "proxy").defects == {"cut": 1}
    assert of(quality, "proxy").rejected_spans == 1
    assert quality.left_out == {"tenant/acme": {"reused_id": 3}}


def test_the_document_and_the_text_show_the_same(known: Store) -> None:
    quality = read_quality(known, DAY)
    document: dict[str, Any] = json.loads(json.dumps(as_document(quality)))
    engine = next(source for source in document["sources"] if source["service"] == "engine-a")
    assert (engine["read_ratio"], engine["unknown_tenant_ratio"], engine["completeness"]["requests"]) == (1.0, 0.75, 4)
    written = io.StringIO()
    render(quality, Console(file=written, width=140))
    for text in (
        "engine-a (platform): spans with a defect: duplicate 1, negative_count 2",
        "shop (tenant/acme): spans that no profile knows: 1",
        "cached_over_input 1",
        "Spans of tenant/acme that no request shows: reused_id 3",
    ):
        assert text in written.getvalue()


def test_too_many_spans_are_sampled_by_blocks_and_scaled(store: Store, tmp_path: Path) -> None:
    configure(store, tmp_path)
    store.command(
        "INSERT INTO spans (start_hour, trace_id, span_id, principal, name, started_at, duration_ns, resource, scope_name)"
        " SELECT toDateTime('2026-11-30 10:00:00', 'UTC'),"
        " reinterpretAsFixedString(sipHash128(number)), reinterpretAsFixedString(number + 1),"
        " 'platform', 'llm_request', '2026-11-30 10:00:01', 1, map('service.name', 'a'), 'vllm.tracing.otel' FROM numbers(400000)"
    )
    quality = read_quality(store, DAY, spans_read_max=100_000)
    assert quality.one_in == 4
    assert of(quality, "a").spans % 4 == 0 and 100_000 < of(quality, "a").spans < 900_000
    assert of(read_quality(store, DAY), "a").spans == 400_000


def test_an_empty_store_has_no_sources(store: Store) -> None:
    quality = read_quality(store, ReportQuery(datetime(2026, 11, 30, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)))
    assert (quality.sources, quality.left_out) == ((), {})
