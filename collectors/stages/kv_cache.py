"""The stage of the KV cache: looking up, loading and storing blocks."""

from typing import Literal

from opentelemetry.context import Context

from collectors.stages.span import Stage, Value

Tier = Literal["device", "host", "disk", "remote"]


class KvCache(Stage):
    __slots__ = ()
    stage = "kv_cache"

    def __init__(
        self, *, tier: Tier | None = None, lookup_tokens: int | None = None, parent: Context | None = None, start_ns: int | None = None
    ) -> None:
        attributes: dict[str, Value] = {}
        if tier is not None:
            attributes["tokenpath.kv.tier"] = tier
        if lookup_tokens is not None:
            attributes["tokenpath.kv.lookup_tokens"] = lookup_tokens
        super().__init__(parent, start_ns, attributes)

    def found(self, hit_tokens: int) -> None:
        """Of the tokens that were asked for."""
        self.span.set_attribute("tokenpath.kv.hit_tokens", hit_tokens)

    def moved(self, size_bytes: int) -> None:
        self.span.set_attribute("tokenpath.kv.bytes", size_bytes)
