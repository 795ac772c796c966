"""What all stages share: a span that is current while the block runs."""

from contextvars import Token
from types import TracebackType
from typing import Self

from opentelemetry import context as current
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_tracer, set_span_in_context

Value = str | bool | int | float | tuple[str, ...]
TRACER = get_tracer("tokenpath.stages")
ERROR = Status(StatusCode.ERROR)


class Recorded:
    """One span. `parent`: the context it belongs to, where that is not the current one (another thread, a request taken from a queue).

    `start_ns`, and `end_ns` before the block is left: unix ns, for whoever knows the times better than the clock at the block's edges.
    """

    __slots__ = ("_attributes", "_name", "_parent", "_token", "end_ns", "span", "start_ns")
    kind = SpanKind.INTERNAL
    tracer: Tracer = TRACER
    span: Span
    _token: Token[Context]

    def __init__(self, name: str, attributes: dict[str, Value], parent: Context | None, start_ns: int | None) -> None:
        self._name, self._attributes, self._parent = name, attributes, parent
        self.start_ns: int | None = start_ns
        self.end_ns: int | None = None

    def __enter__(self) -> Self:
        self.span = self.tracer.start_span(self._name, self._parent, self.kind, self._attributes, start_time=self.start_ns)
        self._token = current.attach(set_span_in_context(self.span, self._parent))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        current.detach(self._token)
        if isinstance(error, Exception):  # what stops it from outside (a cancelled task, a closed generator) is no error of the stage
            self.failed(type(error).__name__)
        self.span.end(self.end_ns)

    @property
    def context(self) -> Context:
        """For spans that belong under this one and are made elsewhere: their `parent`."""
        return set_span_in_context(self.span)

    def failed(self, error_type: str) -> None:
        """It ended with an error. `error_type`: a class of errors or a status code, no text."""
        self.span.set_attribute("error.type", error_type)
        self.span.set_status(ERROR)

    def set(self, name: str, value: Value | None) -> None:
        """Any other attribute of the conventions; None is not told."""
        if value is not None:
            self.span.set_attribute(name, value)


class Stage(Recorded):
    """A stage span: its name is the stage's, and `tokenpath.stage` says that it is meant so."""

    __slots__ = ()
    stage = ""

    def __init__(self, parent: Context | None, start_ns: int | None, attributes: dict[str, Value]) -> None:
        attributes["tokenpath.stage"] = self.stage
        super().__init__(self.stage, attributes, parent, start_ns)
