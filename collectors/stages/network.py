"""The network's stages inside a prefill or decode. `busy_ns` is their time; the span's interval is only the frame."""

from opentelemetry.context import Context

from collectors.stages.span import Stage, Value


class _Transfer(Stage):
    __slots__ = ()

    def __init__(self, busy_ns: int, *, size_bytes: int | None = None, parent: Context | None = None, start_ns: int | None = None) -> None:
        attributes: dict[str, Value] = {"tokenpath.busy_ns": busy_ns}
        if size_bytes is not None:
            attributes["tokenpath.bytes"] = size_bytes
        super().__init__(parent, start_ns, attributes)


class Nvlink(_Transfer):
    """Between the GPUs of one host."""

    __slots__ = ()
    stage = "nvlink"


class Switch(_Transfer):
    """Through the switches between hosts."""

    __slots__ = ()
    stage = "switch"


class Nic(_Transfer):
    """Through the host's network adapter."""

    __slots__ = ()
    stage = "nic"
