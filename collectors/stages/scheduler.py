"""The scheduler's stage: waiting for a place on the GPU."""

from opentelemetry.context import Context

from collectors.stages.span import Stage


class Schedule(Stage):
    __slots__ = ()
    stage = "schedule"

    def __init__(self, *, parent: Context | None = None, start_ns: int | None = None) -> None:
        super().__init__(parent, start_ns, {})

    def preempted(self, times: int) -> None:
        """How often the request lost its place and had to wait again."""
        self.span.set_attribute("tokenpath.schedule.preemptions", times)
