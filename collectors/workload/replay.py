"""`tokenpath replay`: trace in, spans and truth out, in virtual time and as fast as the target takes them."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from collectors.workload.cluster import Cluster
from collectors.workload.emit import Sleep, open_senders
from collectors.workload.errors import ReplayRefused, TraceInvalid
from collectors.workload.example import synthesize
from collectors.workload.options import LAYOUTS, Faults, ReplayOptions, ReplicaOptions, default_fleet
from collectors.workload.outbox import Outbox
from collectors.workload.plan import Plan, draw, owner
from collectors.workload.replica import Replica
from collectors.workload.roofline import KV_PAGE_TOKENS, gpus_for, roofline
from collectors.workload.served import Served
from collectors.workload.spans import GATEWAY, Ids, SpanData, all_spans, resource_of, scope_of, vllm_spans
from collectors.workload.trace import TraceRequest, count_requests, read_trace
from collectors.workload.truth import TruthWriter, attempt_rows, outcome_of, replica_rows, request_row, slo_for

Progress = Callable[[int, int], None]  # requests done, requests in all
SHARES = ("rejected", "blocked", "leaves", "unavailable", "crash", "poisoned")


class ReplaySummary(BaseModel):
    """What was sent. `from_ns` and `to_ns`: first start and last end of a span; ratios of sums; `cached_ratio` None without input."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requests: int
    attempts: int
    spans: int
    batches: int
    from_ns: int
    to_ns: int
    outcomes: Mapping[str, int]
    requests_by_tenant: Mapping[str, int]
    requests_by_model: Mapping[str, int]
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    useful_tokens: int
    cached_ratio: float | None
    busy_ratio_by_replica: Mapping[str, float]  # of the time from the first start to the last end


def replay(options: ReplayOptions, progress: Progress, *, sleep: Sleep = time.sleep) -> ReplaySummary:
    """Runs a replay to its end. Raises WorkloadError: TraceInvalid, ReplayRefused, SendFailed (what was sent before stays sent)."""
    window_ns = options.window_seconds * 10**9
    by_model: dict[str, list[Replica]] = {}
    for one in _fleet(options):
        by_model.setdefault(one.model, []).append(Replica(one.id, roofline(one), one.prefill_budget_tokens, one.running_max, window_ns))
    replicas = [replica for some in by_model.values() for replica in some]
    resources = {source: resource_of(source, options.emit) for source in (GATEWAY, *(replica.id for replica in replicas))}
    total, tally = _total(options), _Tally(options, replicas)
    arrivals = _arrivals(options, by_model)
    with open_senders(options, resources, scope_of(options.emit), sleep) as senders, TruthWriter(options.truth_dir) as truth:
        outbox = Outbox(senders, options.batch_spans)
        for over, watermark_ns in Cluster(by_model, options.routing).serve(arrivals):
            for served in over:
                outbox.put(tally.add(served, truth))
            outbox.send_before(watermark_ns)
            if over:
                progress(tally.requests, total)
        outbox.flush()
        truth.write("replicas", replica_rows(replicas, tally.from_ns, tally.to_ns, window_ns))
    return tally.summary(outbox.spans, outbox.batches)


def _fleet(options: ReplayOptions) -> tuple[ReplicaOptions, ...]:
    if options.fleet:
        return options.fleet
    if options.replicas < len(options.models):
        raise ReplayRefused(f"{options.replicas} replicas cannot serve {len(options.models)} models; each model needs one")
    return default_fleet(options.models, options.replicas, {model: gpus_for(model) for model in options.models if model not in LAYOUTS})


def _total(options: ReplayOptions) -> int:
    count = options.example_requests if options.file is None else count_requests(options.file, options.format)
    return count if options.limit is None else min(count, options.limit)


def _arrivals(options: ReplayOptions, by_model: Mapping[str, list[Replica]]) -> Iterator[tuple[int, TraceRequest, Plan]]:
    """Requests at their unix times, with what chance decided about them."""
    if options.file is None:
        requests: Iterable[TraceRequest] = islice(synthesize(options.example_requests, options.seed), options.limit)
    else:
        requests = read_trace(options.file, options.format, options.limit)
    models = tuple(by_model)
    room = {model: KV_PAGE_TOKENS * min(replica.roofline.capacity_pages for replica in some) for model, some in by_model.items()}
    shares = _shares(options.faults)
    speed, per_speed = options.speed.as_integer_ratio()
    for request in requests:
        tenant, model = owner(request, options.seed, options.tenants, models)
        if model not in by_model:
            raise TraceInvalid(
                options.file or Path("<example>"), request.line, f"model {model!r} runs on no replica; there are {', '.join(models)}"
            )
        plan = draw(request, options.seed, (tenant, model), options.faults, shares)
        if request.input_tokens + request.output_tokens > room[model]:
            plan = plan._replace(rejected_status=400)  # longer than any replica's KV cache
        yield options.start_ns + request.arrival_ns * per_speed // speed, request, plan


def _shares(faults: Faults) -> dict[str, float]:
    return {name: float(getattr(faults, name)) for name in SHARES}


class _Tally:
    """Counts what is over, writes its truth, and makes its spans."""

    def __init__(self, options: ReplayOptions, replicas: Sequence[Replica]) -> None:
        self._options = options
        self._replicas = replicas
        self._rooflines = {replica.id: replica.roofline for replica in replicas}
        self.requests = self._attempts = 0
        self.from_ns = self.to_ns = options.start_ns
        self._outcomes: Counter[str] = Counter()
        self._tenants: Counter[str] = Counter()
        self._models: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()

    def add(self, served: Served, truth: TruthWriter) -> list[SpanData]:
        plan, ids = served.plan, Ids(self._options.seed, served)
        row = request_row(served, ids, outcome_of(served, slo_for(self._options.slos, plan.tenant, plan.model)))
        truth.write("requests", (row,))
        truth.write("attempts", attempt_rows(served, ids))
        self.from_ns = min(self.from_ns, served.arrival_ns) if self.requests else served.arrival_ns
        self.to_ns = max(self.to_ns, served.ended_ns)
        self.requests += 1
        self._attempts += len(served.attempts)
        self._outcomes[row["outcome"]] += 1
        self._tenants[plan.tenant] += 1
        self._models[plan.model] += 1
        for name in ("input_tokens", "cached_tokens", "output_tokens", "useful"):
            self._tokens[name] += row[name] or 0
        return vllm_spans(served, ids) if self._options.emit == "vllm" else all_spans(served, ids, self._rooflines, self._options.routing)

    def summary(self, spans: int, batches: int) -> ReplaySummary:
        tokens, span_ns = self._tokens, max(1, self.to_ns - self.from_ns)
        return ReplaySummary(
            requests=self.requests,
            attempts=self._attempts,
            spans=spans,
            batches=batches,
            from_ns=self.from_ns,
            to_ns=self.to_ns,
            outcomes=dict(sorted(self._outcomes.items())),
            requests_by_tenant=dict(sorted(self._tenants.items())),
            requests_by_model=dict(sorted(self._models.items())),
            input_tokens=tokens["input_tokens"],
            cached_tokens=tokens["cached_tokens"],
            output_tokens=tokens["output_tokens"],
            useful_tokens=tokens["useful"],
            cached_ratio=tokens["cached_tokens"] / tokens["input_tokens"] if tokens["input_tokens"] else None,
            busy_ratio_by_replica={replica.id: sum(replica.busy_ns.values()) / span_ns for replica in self._replicas},
        )
