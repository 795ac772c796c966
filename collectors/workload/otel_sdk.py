"""Spans through the OpenTelemetry SDK: a TracerProvider per process of the modelled stack, explicit times, ids from the seed, and the
SDK's own OTLP exporters. Batches go to the exporter directly: a BatchSpanProcessor drops what it cannot send and says nothing."""

from collections.abc import Mapping, Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags, Tracer, set_span_in_context

from collectors.workload.errors import SendFailed
from collectors.workload.spans import Kind, SpanData

KINDS: Mapping[Kind, SpanKind] = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER, "client": SpanKind.CLIENT}
ATTRIBUTES_MAX = 128


class _GivenIds(IdGenerator):
    """Hands out the ids that were set."""

    trace_id = span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class _Ended(SpanProcessor):
    """Keeps the spans that ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class SdkSender:
    """Makes real SDK spans of each batch and gives them to the exporter, which retries on its own. Not thread-safe."""

    def __init__(self, exporter: SpanExporter, target: str, resources: Mapping[str, Mapping[str, str]], scope: str) -> None:
        self._exporter, self._target, self._resources, self._scope = exporter, target, resources, scope
        self._ids, self._ended = _GivenIds(), _Ended()
        self._tracers: dict[str, Tracer] = {}

    def send(self, spans: Sequence[SpanData]) -> None:
        """Returns when the receiver has taken the batch. Raises SendFailed."""
        ended = self.sdk_spans(spans)
        if self._exporter.export(ended) is not SpanExportResult.SUCCESS:
            raise SendFailed(f"{self._target} did not take {len(spans)} spans; the exporter's log lines above say why")

    def sdk_spans(self, spans: Sequence[SpanData]) -> list[ReadableSpan]:
        for span in spans:
            self._make(span)
        ended, self._ended.spans = self._ended.spans, []
        if len(ended) != len(spans):
            raise SendFailed("the OpenTelemetry SDK is switched off in this environment (OTEL_SDK_DISABLED)")
        return ended

    def close(self) -> None:
        self._exporter.shutdown()

    def _make(self, span: SpanData) -> None:
        parent = None
        if span.parent_id:
            context = SpanContext(span.trace_id, span.parent_id, span.parent_is_remote, TraceFlags(TraceFlags.SAMPLED))
            parent = NonRecordingSpan(context)
        self._ids.trace_id, self._ids.span_id = span.trace_id, span.span_id
        made = self._tracer(span.source).start_span(
            span.name,
            # An empty context where there is no parent: None would mean whatever span is current.
            context=set_span_in_context(parent, {}) if parent else {},  # type: ignore[arg-type]
            kind=KINDS[span.kind],
            attributes=span.attributes,
            start_time=span.start_ns,
        )
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(span.end_ns)

    def _tracer(self, source: str) -> Tracer:
        tracer = self._tracers.get(source)
        if tracer is None:
            provider = TracerProvider(
                sampler=ALWAYS_ON,
                resource=Resource(self._resources[source]),
                shutdown_on_exit=False,
                id_generator=self._ids,
                span_limits=SpanLimits(max_span_attributes=ATTRIBUTES_MAX, max_attribute_length=SpanLimits.UNSET),
            )
            provider.add_span_processor(self._ended)
            tracer = self._tracers[source] = provider.get_tracer(self._scope)
        return tracer
