"""Stages of your own stack: names and attributes of the registry, nothing told that is not known, errors without their text."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from collectors import stages
from collectors.stages import gateway, gpu, inference, kv_cache, network, scheduler
from collectors.stages.span import Recorded, Stage
from schemas.stages import GROUPS, STAGES
from tests.bench.stages import measure

CLASSES: dict[str, type[Stage]] = {
    one.stage: one
    for one in (
        gateway.Gateway, gateway.Auth, gateway.Tokenize, gateway.Route, gateway.Stream, gateway.Settle, scheduler.Schedule,
        kv_cache.KvCache,
        gpu.Prefill, gpu.Decode, gpu.Kernel, gpu.Hbm, network.Nvlink, network.Switch, network.Nic,
    )
}  # fmt: skip


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[ReadableSpan]]]:
    """The spans that ended, in that order."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(Recorded, "tracer", provider.get_tracer("test"))
    yield lambda: list(exporter.get_finished_spans())
    provider.shutdown()


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_every_stage_has_its_class_in_the_module_of_its_group() -> None:
    assert set(CLASSES) == set(STAGES)
    modules = {"gateway": "gateway", "scheduler": "scheduler", "kv_cache": "kv_cache", "gpu": "gpu", "network": "network"}
    for group, names in GROUPS.items():
        assert {CLASSES[name].__module__ for name in names} == {f"collectors.stages.{modules[group]}"}


def test_a_stage_that_knows_nothing_tells_only_its_name(ended: Any) -> None:
    for stage, make in CLASSES.items():
        with make(7) if stage in ("kernel", "hbm", "nvlink", "switch", "nic") else make():  # type: ignore[call-arg,arg-type]
            pass
    assert [span.name for span in ended()] == list(CLASSES)
    for span in ended():
        expected = {"tokenpath.stage": span.name}
        if span.name in ("kernel", "hbm", "nvlink", "switch", "nic"):
            expected["tokenpath.busy_ns"] = 7  # type: ignore[assignment]
        assert told(span) == expected
        assert span.kind is (SpanKind.SERVER if span.name == "gateway" else SpanKind.INTERNAL)


def test_attributes_are_those_of_the_registry(ended: Any) -> None:
    with gateway.Gateway(tenant="acme", task="t-1", request_id="r-1", model="m") as request:
        with gateway.Auth() as auth:
            auth.tenant("acme")
        with gateway.Route(policy="prefix_aware") as route:
            route.chose("gpu-0", expected_hit_tokens=512, best_hit_tokens=0)
        with inference.Inference("m", attempt=2, stream=True, replica="gpu-0", request_id="r-1", provider="p", conversation="c") as call:
            with scheduler.Schedule() as schedule:
                schedule.preempted(1)
            with kv_cache.KvCache(tier="host", lookup_tokens=1024) as cache:
                cache.found(512)
                cache.moved(4096)
            with gpu.Prefill() as prefill:
                prefill.computed(512, recomputed_tokens=64)
            with gpu.Decode() as decode:
                decode.generated(96, steps=90, recomputed_tokens=3)
                decode.drafted(12, 9)
                with gpu.Kernel(10, flops=5):
                    pass
                with gpu.Hbm(20, size_bytes=6):
                    pass
                with network.Nic(30, size_bytes=7):
                    pass
            call.usage(input_tokens=1024, output_tokens=96, cache_read_tokens=512, cache_write_tokens=0, reasoning_tokens=8)
            call.response(id="chatcmpl-1", model="m-2026", finish_reasons=("stop",))
        with gateway.Stream() as stream:
            stream.delivered(90)
            stream.disconnected()
        request.blocked()
        request.disconnected()
        request.answered(499)
    spans = {span.name: told(span) for span in ended()}
    for name, span in spans.items():
        if name != "chat m":
            assert span.pop("tokenpath.stage") == name
    assert spans == {
        "auth": {"tokenpath.tenant.id": "acme"},
        "route": {
            "tokenpath.route.policy": "prefix_aware", "tokenpath.route.replica.id": "gpu-0", "tokenpath.route.expected_hit_tokens": 512,
            "tokenpath.route.best_hit_tokens": 0,
        },
        "schedule": {"tokenpath.schedule.preemptions": 1},
        "kv_cache": {
            "tokenpath.kv.tier": "host", "tokenpath.kv.lookup_tokens": 1024, "tokenpath.kv.hit_tokens": 512, "tokenpath.kv.bytes": 4096,
        },
        "prefill": {"tokenpath.prefill.tokens": 512, "tokenpath.recompute_tokens": 64},
        "kernel": {"tokenpath.busy_ns": 10, "tokenpath.flops": 5},
        "hbm": {"tokenpath.busy_ns": 20, "tokenpath.bytes": 6},
        "nic": {"tokenpath.busy_ns": 30, "tokenpath.bytes": 7},
        "decode": {
            "tokenpath.decode.tokens": 96, "tokenpath.decode.steps": 90, "tokenpath.recompute_tokens": 3,
            "tokenpath.draft.proposed_tokens": 12, "tokenpath.draft.accepted_tokens": 9,
        },
        "chat m": {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "tokenpath.attempt.number": 2, "gen_ai.request.stream": True,
            "tokenpath.replica.id": "gpu-0", "tokenpath.request.id": "r-1", "gen_ai.provider.name": "p", "gen_ai.conversation.id": "c",
            "gen_ai.usage.input_tokens": 1024, "gen_ai.usage.output_tokens": 96, "gen_ai.usage.cache_read.input_tokens": 512,
            "gen_ai.usage.cache_creation.input_tokens": 0, "gen_ai.usage.reasoning.output_tokens": 8, "gen_ai.response.id": "chatcmpl-1",
            "gen_ai.response.model": "m-2026", "gen_ai.response.finish_reasons": ("stop",),
        },
        "stream": {"tokenpath.delivered_tokens": 90, "tokenpath.client.disconnected": True},
        "gateway": {
            "tokenpath.tenant.id": "acme", "tokenpath.task.id": "t-1", "tokenpath.request.id": "r-1", "gen_ai.request.model": "m",
            "tokenpath.blocked": True, "tokenpath.client.disconnected": True, "http.response.status_code": 499,
        },
    }  # fmt: skip


def test_an_exception_is_an_error_without_its_text_and_goes_on(ended: Any) -> None:
    with pytest.raises(ValueError, match="the user's words"), gateway.Gateway(), gpu.Prefill():
        raise ValueError("the user's words")
    for span in ended():
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes["error.type"], span.status.description, span.events) == ("ValueError", None, ())


def test_what_is_stopped_from_outside_is_no_error(ended: Any) -> None:
    def chunks() -> Iterator[int]:
        with gateway.Stream():
            yield 1

    running = chunks()
    next(running)
    running.close()  # type: ignore[attr-defined]

    async def cancelled() -> None:
        with gpu.Decode():
            await asyncio.sleep(60)

    async def run() -> None:
        task = asyncio.ensure_future(cancelled())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert [(span.name, span.status.status_code) for span in ended()] == [("stream", StatusCode.UNSET), ("decode", StatusCode.UNSET)]


def test_a_stage_of_another_thread_belongs_to_the_context_that_it_is_given(ended: Any) -> None:
    def prefill(parent: Context) -> None:
        with gpu.Prefill(parent=parent):
            pass

    with inference.Inference("m") as call:
        worker = threading.Thread(
            target=lambda parent: gpu.Prefill(parent=parent).__enter__().__exit__(None, None, None), args=(call.context,)
        )
        worker.start()
        worker.join()
    inner, chat = ended()
    assert inner.parent.span_id == chat.context.span_id


def test_times_may_be_given(ended: Any) -> None:
    with inference.Inference("m", start_ns=1_000) as call:
        call.first_chunk(at_ns=500_001_000)
        call.end_ns = 2_000_000_000
    [span] = ended()
    assert (span.start_time, span.end_time) == (1_000, 2_000_000_000)
    assert span.attributes["gen_ai.response.time_to_first_chunk"] == 0.5


def test_without_an_sdk_nothing_happens() -> None:
    with gateway.Gateway(tenant="acme"), inference.Inference("m") as call:
        call.usage(input_tokens=1)


def test_the_package_needs_the_api_only() -> None:
    text = "".join(path.read_text() for path in Path(stages.__path__[0]).glob("*.py"))
    assert "opentelemetry.sdk" not in text
    assert "pydantic" not in text


def test_a_span_costs_what_the_sdk_takes_and_a_microsecond_at_most() -> None:
    """Against `start_as_current_span`, by turns, the quickest round: ours leaves out its generator, so it should be quicker."""
    assert min(measure(rounds=30, spans=100)["above_sdk"] for _ in range(3)) <= 1_000
