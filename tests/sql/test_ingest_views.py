from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from pipeline.store import Store
from tests.ingest import ingest


def test_captures_of_real_software_become_the_spans_that_the_official_classes_read(store: Store, shared_data: Path) -> None:
    bodies = [path.read_bytes() for path in sorted(shared_data.glob("otlp/*/*traces.binpb"))]
    ingest(store, bodies)
    expected = {
        (span.trace_id, span.span_id, span.name)
        for body in bodies
        for block in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in block.scope_spans
        for span in scope.spans
    }
    assert expected
    assert set(store.query("SELECT trace_id, span_id, name FROM spans FINAL").rows) == expected
