"""The GPU's stages: prefill and decode, and inside them the time of compute (kernel) and of memory (hbm)."""

from opentelemetry.context import Context

from collectors.stages.span import Stage, Value


class Prefill(Stage):
    __slots__ = ()
    stage = "prefill"

    def __init__(self, *, parent: Context | None = None, start_ns: int | None = None) -> None:
        super().__init__(parent, start_ns, {})

    def computed(self, tokens: int, *, recomputed_tokens: int | None = None) -> None:
        """Tokens of the prompt that were computed, cached ones left out; `recomputed_tokens` of them again, after a preemption."""
        self.span.set_attribute("tokenpath.prefill.tokens", tokens)
        self.set("tokenpath.recompute_tokens", recomputed_tokens)


class Decode(Stage):
    __slots__ = ()
    stage = "decode"

    def __init__(self, *, parent: Context | None = None, start_ns: int | None = None) -> None:
        super().__init__(parent, start_ns, {})

    def generated(self, tokens: int, *, steps: int | None = None, recomputed_tokens: int | None = None) -> None:
        self.span.set_attribute("tokenpath.decode.tokens", tokens)
        self.set("tokenpath.decode.steps", steps)
        self.set("tokenpath.recompute_tokens", recomputed_tokens)

    def drafted(self, proposed_tokens: int, accepted_tokens: int) -> None:
        """Of speculative decoding."""
        self.span.set_attribute("tokenpath.draft.proposed_tokens", proposed_tokens)
        self.span.set_attribute("tokenpath.draft.accepted_tokens", accepted_tokens)


class Kernel(Stage):
    """Compute inside a prefill or decode. `busy_ns` is its time; the span's interval is only the frame."""

    __slots__ = ()
    stage = "kernel"

    def __init__(self, busy_ns: int, *, flops: int | None = None, parent: Context | None = None, start_ns: int | None = None) -> None:
        attributes: dict[str, Value] = {"tokenpath.busy_ns": busy_ns}
        if flops is not None:
            attributes["tokenpath.flops"] = flops
        super().__init__(parent, start_ns, attributes)


class Hbm(Stage):
    """Reading weights and KV cache inside a prefill or decode; as Kernel."""

    __slots__ = ()
    stage = "hbm"

    def __init__(self, busy_ns: int, *, size_bytes: int | None = None, parent: Context | None = None, start_ns: int | None = None) -> None:
        attributes: dict[str, Value] = {"tokenpath.busy_ns": busy_ns}
        if size_bytes is not None:
            attributes["tokenpath.bytes"] = size_bytes
        super().__init__(parent, start_ns, attributes)
