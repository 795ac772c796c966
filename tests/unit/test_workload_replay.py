"""A replay's spans and truth, read back from the files it wrote."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from pydantic import ValidationError

from collectors.workload.errors import ReplayRefused, TraceInvalid
from collectors.workload.options import Faults, ReplayOptions, ReplaySlo, ReplicaOptions
from collectors.workload.replay import ReplaySummary, replay
from schemas.stages import STAGES

START_NS = 1_790_000_100 * 10**9
NONE = Faults(rejected=Decimal(0), blocked=Decimal(0), leaves=Decimal(0), unavailable=Decimal(0), crash=Decimal(0), poisoned=Decimal(0))


class Seen(NamedTuple):
    resource: dict[str, Any]
    scope: str
    span: Span
    attributes: dict[str, Any]


class Result(NamedTuple):
    summary: ReplaySummary
    spans: list[Seen]
    requests: list[dict[str, Any]]
    attempts: list[dict[str, Any]]
    replicas: list[dict[str, Any]]
    bodies: list[bytes]


def run(folder: Path, name: str = "run", **options: Any) -> Result:
    to, truth = folder / name / "spans", folder / name / "truth"
    defaults: dict[str, Any] = {"start_ns": START_NS, "to": f"file:{to}", "truth_dir": truth, "example_requests": 250}
    heard: list[tuple[int, int]] = []
    summary = replay(ReplayOptions(**(defaults | options)), lambda done, total: heard.append((done, total)))
    assert heard[-1] == (summary.requests, heard[0][1]) and heard == sorted(heard)
    bodies = [file.read_bytes() for file in sorted(to.glob("*.binpb"))]
    rows = [
        [json.loads(line) for line in (truth / f"{kind}.jsonl").read_text().splitlines()] for kind in ("requests", "attempts", "replicas")
    ]
    return Result(summary, list(decoded(bodies)), rows[0], rows[1], rows[2], bodies)


def decoded(bodies: list[bytes]) -> Iterator[Seen]:
    for body in bodies:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            own = {pair.key: plain(pair.value) for pair in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    yield Seen(own, scope.scope.name, span, {pair.key: plain(pair.value) for pair in span.attributes})


def plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return [plain(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, str(kind))


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The example with everything on, more faults than usual."""
    faults = Faults(
        rejected=Decimal("0.04"), blocked=Decimal("0.04"), leaves=Decimal("0.3"), crash=Decimal("0.08"), unavailable=Decimal("0.05")
    )
    return run(tmp_path_factory.mktemp("default"), example_requests=600, faults=faults)


def by_trace(spans: list[Seen]) -> dict[bytes, list[Seen]]:
    traces: dict[bytes, list[Seen]] = defaultdict(list)
    for seen in spans:
        traces[seen.span.trace_id].append(seen)
    return traces


def test_each_request_is_one_trace_with_one_root_and_no_lost_parent(default: Result) -> None:
    traces = by_trace(default.spans)
    assert {trace.hex() for trace in traces} == {row["trace_id"] for row in default.requests}
    assert len({(s.span.trace_id, s.span.span_id) for s in default.spans}) == len(default.spans) == default.summary.spans
    for members in traces.values():
        roots = [s for s in members if not s.span.parent_span_id]
        assert [(s.span.name, s.span.kind) for s in roots] == [("gateway", Span.SPAN_KIND_SERVER)]
        known = {s.span.span_id for s in members}
        assert all(s.span.parent_span_id in known for s in members if s is not roots[0])


def test_a_span_ends_after_it_starts_and_lies_inside_its_parent(default: Result) -> None:
    spans = {(s.span.trace_id, s.span.span_id): s.span for s in default.spans}
    for seen in default.spans:
        span, parent = seen.span, spans.get((seen.span.trace_id, seen.span.parent_span_id))
        assert START_NS <= span.start_time_unix_nano <= span.end_time_unix_nano
        if parent is not None:
            assert parent.start_time_unix_nano <= span.start_time_unix_nano, span.name
            assert span.end_time_unix_nano <= parent.end_time_unix_nano, span.name


def test_stages_follow_each_other_as_cause_and_effect(default: Result) -> None:
    for members in by_trace(default.spans).values():
        at = {s.span.name: s.span for s in members}
        order = [at[name] for name in ("auth", "tokenize") if name in at]
        attempts = sorted((s.span for s in members if s.span.name.startswith("chat ")), key=lambda span: span.start_time_unix_nano)
        routes = sorted((s.span for s in members if s.span.name == "route"), key=lambda span: span.start_time_unix_nano)
        for route, chat in zip(routes, attempts, strict=True):
            order += [route, chat]
            inside = {s.span.name: s.span for s in members if s.span.parent_span_id == chat.span_id}
            steps = [inside[name] for name in ("schedule", "prefill", "decode") if name in inside]
            assert all(a.end_time_unix_nano == b.start_time_unix_nano for a, b in pairwise(steps))
            if "stream" in at and chat is attempts[-1]:
                assert at["stream"].start_time_unix_nano > inside["prefill"].end_time_unix_nano
        order.append(at["settle"])
        assert all(a.end_time_unix_nano <= b.start_time_unix_nano for a, b in pairwise(order))


def test_spans_are_sent_in_the_order_of_their_ends(default: Result) -> None:
    last_ns = 0
    for body in default.bodies:
        ends = sorted(seen.span.end_time_unix_nano for seen in decoded([body]))
        assert len(ends) <= 500 and last_ns <= ends[0]
        last_ns = ends[-1]


def test_every_stage_is_there_and_says_so(default: Result) -> None:
    staged = [s for s in default.spans if "tokenpath.stage" in s.attributes]
    assert all(s.attributes["tokenpath.stage"] == s.span.name for s in staged)
    assert {s.span.name for s in staged} == set(STAGES) - {"switch", "nic"}
    assert all(s.span.name.startswith("chat ") for s in default.spans if "tokenpath.stage" not in s.attributes)
    engine = ("schedule", "kv_cache", "prefill", "decode", "kernel", "hbm", "nvlink")
    for seen in default.spans:
        assert ("tokenpath.replica.id" in seen.resource) == (seen.span.name in engine)


def test_what_lies_inside_a_phase_is_not_longer_than_the_phase(default: Result) -> None:
    inside: Counter[tuple[bytes, bytes]] = Counter()
    for seen in default.spans:
        if "tokenpath.busy_ns" in seen.attributes:
            inside[seen.span.trace_id, seen.span.parent_span_id] += seen.attributes["tokenpath.busy_ns"]
    phases = {(s.span.trace_id, s.span.span_id): s.span for s in default.spans if s.span.name in ("prefill", "decode")}
    assert set(inside) == set(phases)
    assert all(busy_ns <= phases[key].end_time_unix_nano - phases[key].start_time_unix_nano for key, busy_ns in inside.items())


def test_truth_says_what_the_spans_say(default: Result) -> None:
    """Outcome, tokens and attempts read from the spans by the rules of reading, with nothing of the simulation."""
    traces = by_trace(default.spans)
    for row in default.requests:
        members = traces[bytes.fromhex(row["trace_id"])]
        assert read_request(members) == {key: row[key] for key in row if key != "trace_id"}
    assert set(default.summary.outcomes) == {"useful", "late", "aborted", "failed", "blocked", "rejected"}
    assert Counter(row["outcome"] for row in default.requests) == default.summary.outcomes


def read_request(members: list[Seen]) -> dict[str, Any]:
    (root,) = (s for s in members if not s.span.parent_span_id)
    chats = sorted((s for s in members if s.span.name.startswith("chat ")), key=lambda s: s.attributes["tokenpath.attempt.number"])
    streams = [s for s in members if s.span.name == "stream"]
    usage: dict[str, Any] = next((s.attributes for s in reversed(chats) if "gen_ai.usage.input_tokens" in s.attributes), {})
    delivered = streams[0].attributes["tokenpath.delivered_tokens"] if streams else 0
    if not chats:
        outcome = "rejected" if 400 <= root.attributes["http.response.status_code"] < 500 else "failed"
    elif root.attributes.get("tokenpath.blocked"):
        outcome = "blocked"
    elif all(s.span.status.code == s.span.status.STATUS_CODE_ERROR for s in chats):
        outcome = "failed"
    elif root.attributes.get("tokenpath.client.disconnected"):
        outcome = "aborted"
    else:
        stream, written = streams[0].span, usage["gen_ai.usage.output_tokens"]
        ttft_ns = stream.start_time_unix_nano - root.span.start_time_unix_nano
        tpot_ns = (stream.end_time_unix_nano - stream.start_time_unix_nano) // (written - 1) if written > 1 else 0
        e2e_ns = root.span.end_time_unix_nano - root.span.start_time_unix_nano
        outcome = "useful" if ttft_ns <= 10**9 and tpot_ns <= 60 * 10**6 and e2e_ns <= 60 * 10**9 else "late"
    return {
        "tenant": root.attributes["tokenpath.tenant.id"],
        "model": root.attributes["gen_ai.request.model"],
        "outcome": outcome,
        "input_tokens": usage.get("gen_ai.usage.input_tokens"),
        "cached_tokens": usage.get("gen_ai.usage.cache_read.input_tokens"),
        "output_tokens": usage.get("gen_ai.usage.output_tokens"),
        "delivered_tokens": delivered,
        "useful": delivered if outcome == "useful" else 0,
        "attempts": len(chats),
    }


def test_gpu_time_of_the_attempts_is_the_busy_time_of_their_replicas_exactly(default: Result) -> None:
    shared: dict[str, Fraction] = defaultdict(Fraction)
    for row in default.attempts:
        shared[row["replica"]] += Fraction(row["gpu_ns_exact"])
    busy: Counter[str] = Counter()
    for row in default.replicas:
        assert row["busy_ns"] + row["idle_ns"] == 900 * 10**9 and row["idle_ns"] >= 0 and row["window_from"] % 900 == 0
        busy[row["replica"]] += row["busy_ns"]
    assert len(busy) == 4 and shared == busy


def test_busy_time_is_the_union_of_what_the_spans_show(default: Result) -> None:
    for replica in {row["replica"] for row in default.replicas}:
        live = sorted(
            (s.span.start_time_unix_nano, s.span.end_time_unix_nano)
            for s in default.spans
            if s.span.name in ("prefill", "decode") and s.resource["tokenpath.replica.id"] == replica
        )
        union_ns, upto_ns = 0, 0
        for start_ns, end_ns in live:
            union_ns += max(0, end_ns - max(start_ns, upto_ns))
            upto_ns = max(upto_ns, end_ns)
        assert union_ns == sum(row["busy_ns"] for row in default.replicas if row["replica"] == replica)


def test_attempts_of_truth_are_the_chat_spans(default: Result) -> None:
    chats = {(s.span.trace_id.hex(), s.span.span_id.hex()): s for s in default.spans if s.span.name.startswith("chat ")}
    assert {(row["trace_id"], row["span_id"]) for row in default.attempts} == set(chats)
    assert len(default.attempts) == len(chats) == default.summary.attempts > len(default.requests)
    for row in default.attempts:
        chat = chats[row["trace_id"], row["span_id"]]
        assert chat.attributes["tokenpath.replica.id"] == row["replica"]
        if row["first_token_ns"] is not None:
            ttfc_ns = chat.attributes.get("gen_ai.response.time_to_first_chunk", 0) * 10**9
            assert abs(chat.span.start_time_unix_nano + ttfc_ns - row["first_token_ns"] - 300_000) < 1_000


def test_clients_that_leave_get_part_of_what_was_generated(default: Result) -> None:
    aborted = [row for row in default.requests if row["outcome"] == "aborted"]
    assert len(aborted) > 30
    assert all(row["delivered_tokens"] <= (row["output_tokens"] or 0) for row in aborted)
    assert any(0 < row["delivered_tokens"] < row["output_tokens"] for row in aborted if row["output_tokens"])
    overgenerated = [row["output_tokens"] - row["delivered_tokens"] for row in aborted if row["output_tokens"]]
    assert 0 < max(overgenerated) < 50


def test_the_same_seed_and_input_give_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    one, two, other = run(tmp_path, "one"), run(tmp_path, "two"), run(tmp_path, "other", seed=8)
    assert one.bodies == two.bodies
    for kind in ("requests", "attempts", "replicas"):
        files = [tmp_path / name / "truth" / f"{kind}.jsonl" for name in ("one", "two")]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert one.bodies != other.bodies


def test_the_default_example_is_a_demo_worth_looking_at(tmp_path: Path) -> None:
    summary = run(tmp_path, example_requests=1500).summary
    assert summary.requests == 1500 and set(summary.requests_by_tenant) == {"acme", "globex", "initech"}
    assert set(summary.requests_by_model) == {"llama-3.3-70b", "llama-3.1-8b"}
    assert set(summary.busy_ratio_by_replica) == {"llama70b-0", "llama70b-1", "llama8b-0", "llama8b-1"}
    assert all(0.3 < busy < 0.9 for busy in summary.busy_ratio_by_replica.values())
    assert summary.cached_ratio is not None and 0.3 < summary.cached_ratio < 0.6
    assert summary.attempts > 1500 - summary.outcomes["rejected"]
    assert min(summary.outcomes[name] for name in ("aborted", "late", "failed", "blocked", "rejected")) >= 3
    assert 1700 * 10**9 < summary.to_ns - summary.from_ns < 2200 * 10**9


def test_only_what_vllm_writes(tmp_path: Path) -> None:
    everything, vllm = run(tmp_path, "all"), run(tmp_path, "vllm", emit="vllm")
    assert {s.scope for s in vllm.spans} == {"vllm.tracing.otel"} and {s.span.name for s in vllm.spans} == {"llm_request"}
    assert not any("tenant" in key or "model" in key for s in vllm.spans for key in s.attributes if not key.startswith("gen_ai.latency"))
    assert (everything.requests, everything.attempts) == (vllm.requests, vllm.attempts)
    finished = {s.span.span_id for s in everything.spans if "gen_ai.response.finish_reasons" in s.attributes}
    assert {s.span.span_id for s in vllm.spans} == finished
    assert {s.resource["service.name"] for s in vllm.spans} == {"llama70b-0", "llama70b-1", "llama8b-0", "llama8b-1"}
    truth = {row["span_id"]: row for row in vllm.attempts}
    for seen in vllm.spans:
        row, start_ns = truth[seen.span.span_id.hex()], seen.span.start_time_unix_nano
        assert abs(start_ns + seen.attributes["gen_ai.latency.time_to_first_token"] * 1e9 - row["first_token_ns"]) < 1_000
        assert seen.span.end_time_unix_nano == row["last_token_ns"]


def test_without_faults_every_request_is_served_once(tmp_path: Path) -> None:
    result = run(tmp_path, faults=NONE, slos=(), tenants=("one",))
    assert result.summary.outcomes == {"useful": 250} and result.summary.attempts == 250
    assert result.summary.useful_tokens == result.summary.output_tokens
    assert result.summary.requests_by_tenant == {"one": 250}


@pytest.mark.parametrize(
    ("fault", "outcome", "attempts"), [("rejected", "rejected", 0), ("poisoned", "failed", 3), ("blocked", "blocked", 1)]
)
def test_a_fault_of_every_request(tmp_path: Path, fault: str, outcome: str, attempts: int) -> None:
    result = run(tmp_path, example_requests=40, faults=NONE.model_copy(update={fault: Decimal(1)}))
    assert result.summary.outcomes == {outcome: 40}
    assert {row["attempts"] for row in result.requests} == {attempts}
    assert all(row["delivered_tokens"] == row["useful"] == 0 for row in result.requests)
    if fault == "poisoned":
        assert len({row["replica"] for row in result.attempts[:3]}) > 1
        assert sum(Fraction(row["gpu_ns_exact"]) for row in result.attempts) > 0


def test_prefix_aware_routing_finds_more_in_the_cache_than_taking_turns(tmp_path: Path) -> None:
    aware, turns = run(tmp_path, "aware", example_requests=600), run(tmp_path, "turns", example_requests=600, routing="round_robin")
    assert aware.summary.cached_tokens > turns.summary.cached_tokens > 0
    routes = [s.attributes for s in turns.spans if s.span.name == "route"]
    chosen = Counter(route["tokenpath.route.replica.id"] for route in routes)
    assert chosen["llama8b-0"] == pytest.approx(chosen["llama8b-1"], abs=25)
    assert any(route["tokenpath.route.best_hit_tokens"] > route["tokenpath.route.expected_hit_tokens"] for route in routes)


def trace_file(folder: Path, *fields: dict[str, Any]) -> Path:
    file = folder / "trace.jsonl"
    base = {"timestamp": 0, "input_length": 100, "output_length": 5}
    file.write_text("".join(json.dumps(base | own) + "\n" for own in fields))
    return file


def test_a_prompt_longer_than_the_cache_is_turned_away(tmp_path: Path) -> None:
    file = trace_file(
        tmp_path, {"input_length": 4000, "model": "llama-3.1-8b"}, {"model": "llama-3.1-8b", "tenant": "zeta", "session_id": "s"}
    )
    fleet = (ReplicaOptions(id="only", model="llama-3.1-8b", kv_capacity_tokens=2048),)
    result = run(tmp_path, file=file, fleet=fleet, faults=NONE)
    assert [row["outcome"] for row in sorted(result.requests, key=lambda row: row["attempts"])] == ["rejected", "useful"]
    roots = [s.attributes for s in result.spans if s.span.name == "gateway"]
    assert {root["http.response.status_code"] for root in roots} == {400, 200}
    assert {(root["tokenpath.tenant.id"], root.get("tokenpath.task.id")) for root in roots} >= {("zeta", "s")}


def test_preemption_is_told_by_the_spans(tmp_path: Path) -> None:
    file = trace_file(tmp_path, *({"input_length": 900, "output_length": 400} for _ in range(4)))
    fleet = (ReplicaOptions(id="only", model="llama-3.1-8b", kv_capacity_tokens=4096),)
    result = run(tmp_path, file=file, fleet=fleet, faults=NONE, slos=(ReplaySlo(ttft_ms=1, tpot_ms=None, e2e_ms=None),))
    assert result.summary.outcomes == {"late": 4}
    assert max(s.attributes["tokenpath.schedule.preemptions"] for s in result.spans if s.span.name == "schedule") >= 1
    assert any(s.attributes.get("tokenpath.recompute_tokens", 0) > 900 for s in result.spans if s.span.name == "decode")


def test_speed_brings_arrivals_together(tmp_path: Path) -> None:
    file = trace_file(tmp_path, {}, {"timestamp": 10_000})
    result = run(tmp_path, file=file, speed=Decimal(4), models=("llama-3.1-8b",), replicas=1)
    starts = sorted(s.span.start_time_unix_nano for s in result.spans if not s.span.parent_span_id)
    assert starts == [START_NS, START_NS + 2_500_000_000]


def test_an_empty_trace_sends_nothing(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text("")
    summary = replay(ReplayOptions(start_ns=START_NS, file=file, to=(f"file:{tmp_path / 'to'}",)), lambda done, total: None)
    assert (summary.requests, summary.spans, summary.batches, summary.cached_ratio) == (0, 0, 0, None)


def test_options_that_cannot_be_run_are_refused(tmp_path: Path) -> None:
    for to in ("localhost:4317", "ftp://x", "file:", "grpc://"):
        with pytest.raises(ValidationError, match="is no target"):
            ReplayOptions(start_ns=START_NS, to=(to,))
    with pytest.raises(ValidationError, match="named twice"):
        ReplayOptions(start_ns=START_NS, to=("file:x",), tenants=("a", "a"))
    with pytest.raises(ReplayRefused, match="1 replicas cannot serve 2 models"):
        run(tmp_path, replicas=1)
    with pytest.raises(ReplayRefused, match="no figures for model 'unheard-of'"):
        run(tmp_path, models=("unheard-of",))
    with pytest.raises(TraceInvalid, match=r"trace.jsonl:2: model 'other' runs on no replica"):
        run(tmp_path, file=trace_file(tmp_path, {}, {"model": "other"}))
    run(tmp_path, "twice", example_requests=1)
    with pytest.raises(ReplayRefused, match="give an empty directory"):
        run(tmp_path, "twice", example_requests=1)


def test_the_public_azure_trace_runs_to_its_end(tmp_path: Path, shared_data: Path) -> None:
    result = run(tmp_path, file=shared_data / "azure_llm_2023_code.csv", format="azure", limit=2000, emit="vllm")
    assert result.summary.requests == len(result.requests) == 2000
    assert result.summary.cached_tokens == 0
