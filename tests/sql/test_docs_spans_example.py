"""The example of docs/spans.md as it stands there: its spans through the SDK, OTLP, the store and assembly give the right stages."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from collectors.stages.span import Recorded
from pipeline.store.client import Store
from tests.ingest import ingest
from tests.sql.captures import assembled, configure, only

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spans.md").read_text(encoding="utf-8")
MS = 1_000_000
PROMPT = list(range(1536))


def test_the_example_gives_the_stages_that_it_shows(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1536 in, 512 of them cached, 96 out, all delivered; 20 ms wait, 30 ms prefill, 50 ms decode with 2 ms of NVLink in it."""
    [code] = re.findall(r"<!-- example: stages -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    exporter = InMemorySpanExporter()

    def use(provider: TracerProvider) -> None:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        monkeypatch.setattr(Recorded, "tracer", provider.get_tracer("example"))

    # A process has one provider for good, and tests have several.
    monkeypatch.setattr("opentelemetry.trace.set_tracer_provider", use)
    names: dict[str, Any] = {
        "wait_for_a_place": lambda: time.sleep(0.020),
        "run_prefill": lambda: time.sleep(0.030),
        "run_decode": lambda: time.sleep(0.050),
    }
    exec(code, names)
    names["answer"]("acme", PROMPT)

    ingest(store, [encode_spans(exporter.get_finished_spans()).SerializeToString()], received_ns=time.time_ns())
    requests, attempts = assembled(store, configure(store, tmp_path))
    assert only(requests, "tenant", "model", "input_tokens", "input_cache_read_tokens", "output_tokens", "delivered_tokens") == [
        ("acme", "my-model", 1536, 512, 96, 96)
    ]
    assert only(requests, "outcome", "delivery", "http_status", "streamed", "client_request_id") == [("useful", "confirmed", 200, 1, "r-1")]
    assert only(attempts, "replica", "expected_hit_tokens", "best_hit_tokens") == [("gpu-0", 512, 0)]
    stages, quality = requests[0]["stage_ns"], requests[0]["stage_quality"]
    assert {"gateway", "route", "schedule", "kv_cache", "prefill", "decode", "nvlink", "stream", "other"} == set(stages)
    assert sum(stages.values()) == requests[0]["e2e_ns"]
    for stage, least_ms in {"schedule": 20, "prefill": 30, "decode": 48}.items():  # the rest is the machine's own time
        assert least_ms * MS <= stages[stage], stage
    assert (stages["nvlink"], quality["nvlink"], quality["prefill"]) == (2 * MS, "attribute", "span")
