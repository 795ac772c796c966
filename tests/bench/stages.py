"""What collectors/stages adds to a span of the OpenTelemetry SDK: the same span in each way, by turns, the quickest round of each.

`sdk` is what an application writes without us (`start_as_current_span` and one attribute at its end), `by_hand` the shortest code that
makes the same span (start, attach, detach, end). Nothing is exported.
"""

import gc
import time
from collections.abc import Callable

from opentelemetry import context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, set_span_in_context

from collectors.stages.gpu import Prefill

STAGE, TOKENS = "tokenpath.stage", "tokenpath.prefill.tokens"


def measure(rounds: int = 400, spans: int = 200) -> dict[str, float]:
    """Nanoseconds a span; `above_…` is 0 where ours is the quicker."""
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("bench")
    usual, Prefill.tracer = Prefill.tracer, tracer

    def sdk() -> None:
        with tracer.start_as_current_span("prefill", kind=SpanKind.INTERNAL, attributes={STAGE: "prefill"}) as span:
            span.set_attribute(TOKENS, 512)

    def by_hand() -> None:
        span = tracer.start_span("prefill", None, SpanKind.INTERNAL, {STAGE: "prefill"})
        token = context.attach(set_span_in_context(span))
        span.set_attribute(TOKENS, 512)
        context.detach(token)
        span.end()

    def ours() -> None:
        with Prefill() as prefill:
            prefill.computed(512)

    best = dict.fromkeys((sdk, by_hand, ours), float("inf"))
    gc.disable()
    try:
        for _ in range(rounds):
            for way in best:
                best[way] = min(best[way], _ns_a_span(way, spans))
    finally:
        gc.enable()
        Prefill.tracer = usual
    return {
        "sdk": best[sdk],
        "by_hand": best[by_hand],
        "ours": best[ours],
        "above_sdk": max(0.0, best[ours] - best[sdk]),
        "above_by_hand": max(0.0, best[ours] - best[by_hand]),
    }


def _ns_a_span(way: Callable[[], None], spans: int) -> float:
    begun = time.perf_counter_ns()
    for _ in range(spans):
        way()
    return (time.perf_counter_ns() - begun) / spans
