"""`tokenpath up` as one process: real captures in over both protocols, in any order and twice; commands and pages beside it."""

import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import clickhouse_connect
import grpc  # type: ignore[import-untyped]
import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.processes import Running, tokenpath, up

CAPTURES = Path(__file__).parents[1] / "data" / "otlp"
OLDEST_DAYS = 300  # spans older than 400 days are rejected; by then the captures are moved to the present


def bodies() -> list[tuple[str, bytes]]:
    """(signal, body) of every file of both captures."""
    files = sorted((*(CAPTURES / "litellm-otel-v2").glob("*.binpb"), *(CAPTURES / "vllm").glob("*.binpb")))
    return [("metrics" if "metrics" in file.name else "traces", file.read_bytes()) for file in files]


def first_start(body: bytes) -> int:
    message = ExportTraceServiceRequest.FromString(body)
    return min(s.start_time_unix_nano for r in message.resource_spans for scope in r.scope_spans for s in scope.spans)


def moved(body: bytes, by_ns: int) -> bytes:
    message = ExportTraceServiceRequest.FromString(body)
    for resource in message.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                span.start_time_unix_nano += by_ns
                span.end_time_unix_nano += by_ns
                for event in span.events:
                    event.time_unix_nano += by_ns
    return bytes(message.SerializeToString())


def post(running: Running, signal: str, body: bytes, over: str) -> None:
    if over == "grpc":
        service = {"traces": "trace.v1.TraceService", "metrics": "metrics.v1.MetricsService"}[signal]
        with grpc.insecure_channel(running.grpc) as channel:
            channel.unary_unary(f"/opentelemetry.proto.collector.{service}/Export")(body, timeout=30)
        return
    kind = "application/x-protobuf"
    if over == "json":
        message = ExportTraceServiceRequest.FromString(body) if signal == "traces" else ExportMetricsServiceRequest.FromString(body)
        body, kind = otlp_json(message), "application/json"
    assert httpx.post(f"http://{running.http}/v1/{signal}", content=body, headers={"Content-Type": kind}, timeout=30).status_code == 200


def otlp_json(message: Any) -> bytes:
    """OTLP/JSON as the specification says: ids in hex."""
    from base64 import b64decode

    from google.protobuf.json_format import MessageToDict

    def hexed(node: Any) -> Any:
        if isinstance(node, dict):
            ids = ("traceId", "spanId", "parentSpanId")
            return {key: b64decode(value).hex() if key in ids else hexed(value) for key, value in node.items()}
        return [hexed(item) for item in node] if isinstance(node, list) else node

    return json.dumps(hexed(MessageToDict(message, use_integers_for_enums=True))).encode()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Up, with both captures sent twice in a shuffled order over three ways, loaded and attributed."""
    root = tmp_path_factory.mktemp("up")
    config = root / "config"
    config.mkdir()
    sent = bodies()
    start_ns = min(first_start(body) for signal, body in sent if signal == "traces")
    if time.time_ns() - start_ns > OLDEST_DAYS * 86_400 * 10**9:
        by_ns = time.time_ns() - 7200 * 10**9 - start_ns
        sent = [(signal, moved(body, by_ns) if signal == "traces" else body) for signal, body in sent]
        start_ns += by_ns
    with up(root / "data", "--config", str(config)) as process:
        twice = [*sent, *sent]
        random.Random(7).shuffle(twice)
        for number, (signal, body) in enumerate(twice):
            post(process, signal, body, ("grpc", "http", "json")[number % 3])
        process.wait_until_loaded(spans=57)
        start = datetime.fromtimestamp(start_ns // 10**9, UTC)
        bounds = ("--from", (start - timedelta(hours=1)).isoformat(), "--to", (start + timedelta(hours=1)).isoformat())
        process.command("attribute", *bounds, "--provisional", "--wait", "--config", str(config))
        (root / "bounds.json").write_text(json.dumps(bounds))
        yield process


def report(running: Running, *options: str) -> Any:
    bounds = json.loads((running.data.parent / "bounds.json").read_text())
    return running.command("report", *bounds, *options)


def tenant(report: Any, name: str) -> Any:
    return next(row for row in report["tenants"] if row["tenant"] == name)


def query(running: Running, sql: str) -> list[Any]:
    """Through ClickHouse's HTTP interface, with the token of endpoint.json, by the real client."""
    host, _, port = running.endpoint.clickhouse_http.rpartition(":")
    token = running.endpoint.token.get_secret_value()
    client = clickhouse_connect.get_client(host=host, port=int(port), username="admin", password=token, database="tokenpath")
    return list(client.query(sql).result_rows)


def test_every_span_is_stored_once(running: Running) -> None:
    assert query(running, "SELECT count() FROM spans FINAL") == [(57,)]  # 49 of LiteLLM in four files, 8 of vLLM
    assert running.command("status")["dead_letters"] == 0


def test_the_reading_is_what_the_captures_readmes_say(running: Running) -> None:
    """Sums of the ground truth, request by request; request 11 (5 of about 40 tokens, the client left) is in them as the gateway's own
    count, because nothing on its span betrays the abort."""
    found = report(running)
    red, blue, unknown = (tenant(found, name) for name in ("team-red", "team-blue", "unknown"))
    assert (red["tokens"]["input"], red["tokens"]["output"], red["tokens"]["input_cache_read"]) == (882, 440, 256)
    assert (blue["tokens"]["input"], blue["tokens"]["output"], blue["tokens"]["input_cache_read"]) == (2691 + 11, 412 + 5, 1792)
    assert (red["requests"]["total"], red["requests"]["useful"], red["requests"]["rejected"]) == (6, 5, 1)
    assert (blue["requests"]["total"], blue["requests"]["useful"], blue["requests"]["aborted"]) == (5, 5, 0)
    assert (unknown["requests"]["total"], unknown["requests"]["rejected"]) == (8, 1)  # LiteLLM 10, and vLLM's seven
    assert (unknown["tokens"]["input"], unknown["tokens"]["output"]) == (4006, 242)
    assert sum(row["attempts"] for row in (red, blue)) == 13
    assert sum(row["failed_attempts"] for row in (red, blue)) == 3


def test_what_the_spans_cannot_tell_is_unknown_or_assumed_not_invented(running: Running) -> None:
    found = report(running)
    blue, unknown = tenant(found, "team-blue"), tenant(found, "unknown")
    assert blue["tokens"]["output_reasoning"] is None
    assert unknown["tokens"]["input_cache_read"] is None
    assert blue["tokens"]["delivered_assumed"] >= 5
    assert unknown["cost_per_million_useful_tokens"] == {"direct": None, "fully_loaded": None}


def test_readers_get_in_with_the_token_of_the_endpoint_file_only(running: Running) -> None:
    assert query(running, "SELECT 1") == [(1,)]
    assert httpx.get(f"http://{running.endpoint.clickhouse_http}/?query=SELECT+1").status_code == 403


def test_liveness_readiness_and_metrics(running: Running) -> None:
    page = f"http://{running.viewer}"
    assert httpx.get(f"{page}/healthz").text == "ok\n"
    assert httpx.get(f"{page}/readyz").json() == {"store": True, "log": True, "loader": True}
    metrics = httpx.get(f"{page}/metrics").text
    assert "tokenpath_loader_spans_total" in metrics
    assert "tokenpath_loader_dead_letters_total 0" in metrics


def test_attribution_on_request_needs_an_admin_key_and_a_valid_body(running: Running) -> None:
    address = f"http://{running.viewer}/admin/attribute"
    assert httpx.post(address, json={}).status_code == 403
    token = {"Authorization": f"Bearer {running.endpoint.token.get_secret_value()}"}
    assert httpx.post(address, json={"from_at": "2026-01-01"}, headers=token).status_code == 400
    body = {"from_at": "2026-11-30T00:00:00Z", "to_at": "2026-11-30T00:15:00Z"}
    assert httpx.post(address, json=body, headers=token).status_code == 202


def test_pages_answer_beside_it(running: Running) -> None:
    assert httpx.get(f"http://{running.viewer}/", follow_redirects=True).status_code == 200
    assert httpx.get(f"http://{running.viewer}/d/cost/panels/1.json").json()["kind"] == "stat"


def test_a_second_up_on_the_same_data_is_refused_in_one_line(running: Running) -> None:
    done = tokenpath("up", "--data", running.data)
    assert done.returncode == 2
    assert "another process holds the store" in done.stderr
