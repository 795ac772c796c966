"""One attempt inside an engine, and what it used."""

from collections.abc import Sequence as Seq
from enum import Enum

from collectors.workload.trace import BLOCK_TOKENS


class Ended(Enum):
    FINISHED = "finished"
    CRASHED = "crashed"  # engine error after prefill work, before the first token
    CANCELLED = "cancelled"


class PhaseWork:
    """What one phase (prefill, decode) of an attempt did. `*_ns` is engine time while it was in the phase, not its share of it."""

    __slots__ = ("cache_bytes", "compute_ns", "flop", "link_ns", "memory_ns", "recomputed_tokens", "steps", "tokens")

    def __init__(self) -> None:
        self.tokens = self.recomputed_tokens = self.steps = 0
        self.flop = self.cache_bytes = 0
        self.compute_ns = self.memory_ns = self.link_ns = 0


class Sequence:
    """Mutable state of an attempt in its replica; times in trace ns. `gpu_ticks` (2^-20 ns) is its exact part of all its steps."""

    __slots__ = (
        "blocks", "cached_tokens", "computed", "crash", "decode", "ended", "ended_ns", "first_scheduled_ns", "first_token_ns",
        "generated", "gpu_ticks", "held", "high_water", "last_token_ns", "mark", "number", "output_tokens", "pages", "preemptions",
        "prefill", "private_pages", "prompt_tokens", "published", "ready_ns",
    )  # fmt: skip

    def __init__(self, number: int, prompt_tokens: int, output_tokens: int, blocks: Seq[int], ready_ns: int, crash: bool = False) -> None:
        self.number = number
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.blocks = blocks[: prompt_tokens // BLOCK_TOKENS]  # full ones only: others cannot be shared
        self.ready_ns = ready_ns
        self.crash = crash
        self.computed = self.generated = self.high_water = 0  # tokens whose KV is there now; sampled; ever computed
        self.pages = self.private_pages = 0  # all pages covering `computed`; those not shared
        self.held: list[int] = []  # cached blocks it has a share in, in prompt order
        self.published = 0  # leading blocks that were offered to the cache
        self.cached_tokens: int | None = None  # found at the first admission
        self.preemptions = 0
        self.first_scheduled_ns: int | None = None
        self.first_token_ns: int | None = None
        self.last_token_ns: int | None = None
        self.ended: Ended | None = None
        self.ended_ns = 0
        self.gpu_ticks = 0
        self.mark = (0, 0, 0)  # the replica's compute, memory and link time when its phase began
        self.prefill = PhaseWork()
        self.decode = PhaseWork()

    @property
    def known(self) -> int:
        """Tokens that must be computed before the next one can be sampled."""
        return self.prompt_tokens + self.generated

    @property
    def decoding(self) -> bool:
        """True if one step gives it one token."""
        return self.generated > 0 and self.known - self.computed == 1

    @property
    def phase(self) -> PhaseWork:
        return self.prefill if self.first_token_ns is None else self.decode
