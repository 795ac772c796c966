"""A served request as spans (CONTRACTS 1): the gateway's and the engines', or only what vLLM writes."""

from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Literal, NamedTuple

from collectors.workload.cluster import LOOKUP_BLOCK_NS, LOOKUP_NS
from collectors.workload.roofline import Roofline
from collectors.workload.sequence import Ended, PhaseWork
from collectors.workload.sequence import Sequence as EngineSequence
from collectors.workload.served import NETWORK_NS, Attempt, Served

Value = str | bool | int | float | tuple[str, ...]
Attributes = dict[str, Value]
Kind = Literal["internal", "server", "client"]
GATEWAY = "gateway"
SCOPE, VLLM_SCOPE = "tokenpath", "vllm.tracing.otel"


class SpanData(NamedTuple):
    """One finished span. `source` is GATEWAY or a replica id; `error` the message of an ERROR status; ids as integers, parent 0: none."""

    end_ns: int
    start_ns: int
    name: str
    kind: Kind
    trace_id: int
    span_id: int
    parent_id: int
    parent_is_remote: bool
    source: str
    attributes: Attributes
    error: str | None


def resource_of(source: str, emit: Literal["all", "vllm"]) -> Mapping[str, str]:
    """Resource attributes of the process that writes a source's spans."""
    if source == GATEWAY:
        return MappingProxyType({"service.name": "tokenpath-gateway", "service.instance.id": "gateway-0", "service.version": "1.0.0"})
    own = {"service.name": source, "service.instance.id": f"{source}-engine", "service.version": "0.33.0", "tokenpath.replica.id": source}
    vllm = {"vllm.instrumenting_module_name": "vllm.llm_engine", "vllm.process_id": "1"}
    return MappingProxyType(own | vllm if emit == "vllm" else own)


class Ids:
    """The ids of a request, from the seed: the trace, its root, and for each attempt the inference span that truth names."""

    def __init__(self, seed: int, served: Served) -> None:
        self._chance = Random(f"{seed} ids {served.request.line}")
        self.trace = self._chance.getrandbits(128) or 1
        self.root = self.next()
        self.attempts = [self.next() for _ in served.attempts]

    def next(self) -> int:
        return self._chance.getrandbits(64) or 1


class _Writer:
    """Collects the spans of one trace."""

    def __init__(self, ids: Ids) -> None:
        self.ids = ids
        self.spans: list[SpanData] = []

    def add(
        self, source: str, name: str, interval: tuple[int, int], parent: int, attributes: Attributes, *,
        span_id: int | None = None, kind: Kind = "internal", remote: bool = False, error: str | None = None,
    ) -> int:  # fmt: skip
        own = self.ids.next() if span_id is None else span_id
        self.spans.append(SpanData(interval[1], interval[0], name, kind, self.ids.trace, own, parent, remote, source, attributes, error))
        return own

    def stage(self, source: str, stage: str, interval: tuple[int, int], parent: int, attributes: Attributes, remote: bool = False) -> int:
        return self.add(source, stage, interval, parent, {"tokenpath.stage": stage, **attributes}, remote=remote)


def all_spans(served: Served, ids: Ids, rooflines: Mapping[str, Roofline], routing: str) -> list[SpanData]:
    """Every stage, in no order."""
    plan, write, root = served.plan, _Writer(ids), ids.root
    clock = served.arrival_ns
    write.stage(GATEWAY, "auth", (clock, clock + plan.auth_ns), root, {"tokenpath.tenant.id": plan.tenant})
    if served.attempts:
        write.stage(GATEWAY, "tokenize", (clock + plan.auth_ns, served.routed_ns), root, {})
    for attempt, span_id in zip(served.attempts, ids.attempts, strict=True):
        _attempt(write, served, attempt, span_id, rooflines[attempt.replica], routing)
    gone: Attributes = {"tokenpath.client.disconnected": True} if served.left_ns is not None else {}
    if served.stream_ns is not None:
        write.stage(GATEWAY, "stream", served.stream_ns, root, {"tokenpath.delivered_tokens": served.delivered_tokens} | gone)
    write.stage(GATEWAY, "settle", served.settle_ns, root, {})
    status = http_status(served)
    attributes: Attributes = {
        "tokenpath.stage": "gateway",
        "tokenpath.tenant.id": plan.tenant,
        "tokenpath.request.id": _request_id(ids),
        "gen_ai.request.model": plan.model,
        "gen_ai.request.stream": True,
        "http.response.status_code": status,
    }
    if served.request.session_id is not None:
        attributes["tokenpath.task.id"] = served.request.session_id
    if served.blocked:
        attributes["tokenpath.blocked"] = True
    if status >= 500:
        attributes["error.type"] = str(status)
    error = "no attempt ended well" if status >= 500 else None
    write.add(GATEWAY, "gateway", (clock, served.ended_ns), 0, attributes | gone, span_id=root, kind="server", error=error)
    return write.spans


def http_status(served: Served) -> int:
    """What the client got, or would have got."""
    if served.plan.rejected_status is not None:
        return served.plan.rejected_status
    if served.blocked:
        return 403
    if served.attempts[-1].failed:
        return 502
    return 499 if served.left_ns is not None and served.delivered_tokens == 0 else 200


def _request_id(ids: Ids) -> str:
    return f"req-{ids.trace:032x}"


def _attempt(write: _Writer, served: Served, attempt: Attempt, span_id: int, roofline: Roofline, routing: str) -> None:
    plan, sequence = served.plan, attempt.sequence
    write.stage(
        GATEWAY,
        "route",
        (attempt.route_start_ns, attempt.route_end_ns),
        write.ids.root,
        {
            "tokenpath.route.replica.id": attempt.replica,
            "tokenpath.route.policy": routing,
            "tokenpath.route.expected_hit_tokens": attempt.expected_hit_tokens,
            "tokenpath.route.best_hit_tokens": attempt.best_hit_tokens,
        },
    )
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": plan.model,
        "gen_ai.request.stream": True,
        "tokenpath.attempt.number": attempt.number,
        "tokenpath.request.id": _request_id(write.ids),
        "tokenpath.replica.id": attempt.replica,
    }
    if served.request.session_id is not None:
        attributes["gen_ai.conversation.id"] = served.request.session_id
    error = None
    if attempt.failed:
        status = "503" if sequence is None else "500"
        error = "engine unavailable" if sequence is None else "engine error"
        attributes |= {"error.type": status, "http.response.status_code": int(status)}
    elif sequence is not None:
        attributes |= _answer(attempt, sequence, plan.model, plan.finish_reason, span_id)
    interval = (attempt.route_end_ns, attempt.ended_ns)
    write.add(GATEWAY, f"chat {plan.model}", interval, write.ids.root, attributes, span_id=span_id, kind="client", error=error)
    if sequence is not None:
        _engine(write, attempt, sequence, span_id, roofline, len(served.request.blocks))


def _answer(attempt: Attempt, sequence: EngineSequence, model: str, finish_reason: str, span_id: int) -> Attributes:
    attributes: Attributes = {"gen_ai.response.id": f"chatcmpl-{span_id:016x}"}
    if attempt.usage is not None:
        read, cached, written = attempt.usage
        attributes |= {
            "gen_ai.response.model": model,
            "gen_ai.usage.input_tokens": read,
            "gen_ai.usage.cache_read.input_tokens": cached,
            "gen_ai.usage.output_tokens": written,
            "gen_ai.usage.reasoning.output_tokens": 0,  # the modelled engines do not reason, and say so
        }
    if sequence.first_token_ns is not None:
        attributes["gen_ai.response.time_to_first_chunk"] = (sequence.first_token_ns + NETWORK_NS - attempt.route_end_ns) / 10**9
    if sequence.ended is Ended.FINISHED:
        attributes |= {"gen_ai.response.finish_reasons": (finish_reason,), "http.response.status_code": 200}
    return attributes


def _engine(write: _Writer, attempt: Attempt, s: EngineSequence, chat: int, roofline: Roofline, blocks: int) -> None:
    arrived_ns, source = attempt.arrived_ns, attempt.replica
    scheduled_ns = s.ended_ns if s.first_scheduled_ns is None else s.first_scheduled_ns
    write.stage(source, "schedule", (arrived_ns, scheduled_ns), chat, {"tokenpath.schedule.preemptions": s.preemptions}, remote=True)
    lookup: Attributes = {"tokenpath.kv.lookup_tokens": s.prompt_tokens, "tokenpath.kv.tier": "device"}
    if s.cached_tokens is not None:
        lookup["tokenpath.kv.hit_tokens"] = s.cached_tokens
    looked_ns = min(arrived_ns + LOOKUP_NS + LOOKUP_BLOCK_NS * blocks, scheduled_ns)
    write.stage(source, "kv_cache", (arrived_ns, looked_ns), chat, lookup, remote=True)
    if s.first_scheduled_ns is None:
        return
    prefilled_ns = s.ended_ns if s.first_token_ns is None else s.first_token_ns
    _phase(
        write, source, "prefill", (scheduled_ns, prefilled_ns), chat, s.prefill, {"tokenpath.prefill.tokens": s.prefill.tokens}, roofline
    )
    if s.generated > 1 or (s.generated == 1 and s.ended is Ended.CANCELLED):
        end_ns = s.ended_ns if s.ended is Ended.CANCELLED else s.last_token_ns or s.ended_ns
        made: Attributes = {"tokenpath.decode.tokens": s.decode.tokens, "tokenpath.decode.steps": s.decode.steps}
        _phase(write, source, "decode", (prefilled_ns, end_ns), chat, s.decode, made, roofline)


def _phase(
    write: _Writer, source: str, stage: str, interval: tuple[int, int], chat: int, work: PhaseWork, made: Attributes, roofline: Roofline
) -> None:
    """A phase, and inside it the time of compute, memory and the exchange between GPUs (with what the request itself needed of each)."""
    if work.recomputed_tokens:
        made["tokenpath.recompute_tokens"] = work.recomputed_tokens
    phase = write.stage(source, stage, interval, chat, made, remote=True)
    write.stage(source, "kernel", interval, phase, {"tokenpath.busy_ns": work.compute_ns, "tokenpath.flops": work.flop})
    write.stage(source, "hbm", interval, phase, {"tokenpath.busy_ns": work.memory_ns, "tokenpath.bytes": work.cache_bytes})
    if roofline.link_bytes:
        moved = roofline.link_bytes * (work.tokens + work.recomputed_tokens)
        write.stage(source, "nvlink", interval, phase, {"tokenpath.busy_ns": work.link_ns, "tokenpath.bytes": moved})


def vllm_spans(served: Served, ids: Ids) -> list[SpanData]:
    """One `llm_request` for each attempt that vLLM finished: aborted and failed ones leave no span, and none names tenant or model.
    The parent is the gateway's span, which is not emitted."""
    write = _Writer(ids)
    for attempt, span_id in zip(served.attempts, ids.attempts, strict=True):
        s = attempt.sequence
        if (
            s is None
            or s.ended is not Ended.FINISHED
            or s.first_scheduled_ns is None
            or s.first_token_ns is None
            or s.last_token_ns is None
        ):
            continue
        ready_ns, start_ns = s.ready_ns, attempt.arrived_ns
        attributes: Attributes = {
            "gen_ai.latency.time_to_first_token": (s.first_token_ns - start_ns) / 10**9,
            "gen_ai.latency.e2e": (s.last_token_ns - start_ns) / 10**9,
            "gen_ai.latency.time_in_queue": (s.first_scheduled_ns - ready_ns) / 10**9,
            "gen_ai.latency.time_in_model_prefill": (s.first_token_ns - s.first_scheduled_ns) / 10**9,
            "gen_ai.latency.time_in_model_decode": (s.last_token_ns - s.first_token_ns) / 10**9,
            "gen_ai.latency.time_in_model_inference": (s.last_token_ns - s.first_scheduled_ns) / 10**9,
            "gen_ai.usage.prompt_tokens": s.prompt_tokens,
            "gen_ai.usage.completion_tokens": s.generated,
            "gen_ai.request.id": f"chatcmpl-{span_id:016x}",
            "gen_ai.request.top_p": 1.0,
            "gen_ai.request.max_tokens": s.output_tokens,
            "gen_ai.request.n": 1,
        }
        write.add(
            attempt.replica, "llm_request", (start_ns, s.last_token_ns), ids.next(), attributes, span_id=span_id, kind="server", remote=True
        )  # fmt: skip
    return write.spans


def scope_of(emit: Literal["all", "vllm"]) -> str:
    return VLLM_SCOPE if emit == "vllm" else SCOPE
