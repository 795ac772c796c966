"""Data-sheet figures of GPUs and model architectures: package data in `hardware/*.toml` and `models/*.toml`, each with its source.

The figures only set proportions when a second of GPU time is divided (DESIGN 4.3); a wrong one shifts shares, never the sum.
"""

import tomllib
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Precision = Literal["bf16", "fp16", "fp8", "fp4"]
BYTES_PER_VALUE: Mapping[str, Fraction] = MappingProxyType(
    {"bf16": Fraction(2), "fp16": Fraction(2), "fp8": Fraction(1), "fp4": Fraction(1, 2)}
)

# Tokens that one decode step is taken to hold when the touched experts of a mixture are estimated: a busy replica.
REFERENCE_BATCH_TOKENS = 32

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
Positive = Annotated[int, Field(gt=0)]


class Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Gpu(Entry):
    """One accelerator. FLOP/s are dense (without structured sparsity); watts_idle is null where the vendor does not publish it."""

    id: Id
    name: str
    flops_per_second: Mapping[Precision, Positive]
    hbm_bytes_per_second: Positive
    hbm_bytes: Positive
    watts_tdp: Positive
    watts_idle: Positive | None = None
    source: str

    @model_validator(mode="after")
    def bf16_is_given(self) -> "Gpu":
        if "bf16" not in self.flops_per_second:
            raise ValueError("flops_per_second needs bf16, to which precisions without hardware support fall back")
        return self

    def flops(self, precision: Precision) -> int:
        """Peak FLOP/s at a precision. Weights in a precision that the chip cannot multiply are widened, so bf16 counts."""
        return self.flops_per_second.get(precision, self.flops_per_second["bf16"])


class Model(Entry):
    """One architecture. Dense models: experts = 0 and active_parameters = parameters."""

    id: Id
    name: str
    parameters: Positive
    active_parameters: Positive
    experts: Annotated[int, Field(ge=0)] = 0
    experts_per_token: Annotated[int, Field(ge=0)] = 0
    layers: Positive
    attention_heads: Positive
    kv_heads: Positive
    head_dim: Positive
    kv_bytes_per_token_override: Positive | None = None  # latent attention, sliding windows
    kv_precision: Precision = "bf16"
    source: str
    aliases: tuple[str, ...] = ()

    @model_validator(mode="after")
    def experts_explain_the_active_parameters(self) -> "Model":
        if self.active_parameters > self.parameters:
            raise ValueError("active_parameters exceed parameters")
        if (self.experts > 0) != (self.active_parameters < self.parameters) or (self.experts > 0) != (self.experts_per_token > 0):
            raise ValueError("a mixture states experts, experts_per_token and fewer active_parameters than parameters; a dense model none")
        if self.experts and self.experts_per_token >= self.experts:
            raise ValueError("experts_per_token must be fewer than experts")
        return self

    @property
    def flop_per_token(self) -> int:
        """Multiply and add once per active parameter; attention, which grows with context, comes on top."""
        return 2 * self.active_parameters

    @property
    def attention_flop_per_token(self) -> int:
        """FLOP of one new token per token of its context: scores and values, a multiply and an add each, in every head of every layer.

        Latent attention and sliding windows do less or more of it; the figure is that of plain attention with these heads.
        """
        return 4 * self.layers * self.attention_heads * self.head_dim

    def weight_bytes(self, precision: Precision) -> int:
        """Bytes of weights that one decode step reads.

        Dense: all. Mixture: what every token uses, plus the experts that REFERENCE_BATCH_TOKENS tokens touch when each picks
        experts_per_token of experts independently: E (1 - (1 - k/E)^B). Shared and routed parts follow from the two totals.
        An approximation: real routing is skewed and batches vary; it lies between active and all parameters.
        """
        if not self.experts:
            return int(self.parameters * BYTES_PER_VALUE[precision])
        picked = Fraction(self.experts_per_token, self.experts)
        routed = Fraction(self.parameters - self.active_parameters) / (1 - picked)
        touched = routed * (1 - (1 - picked) ** REFERENCE_BATCH_TOKENS)
        return int((self.parameters - routed + touched) * BYTES_PER_VALUE[precision])

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV cache of one token of context: keys and values of every layer, unless overridden."""
        if self.kv_bytes_per_token_override is not None:
            return self.kv_bytes_per_token_override
        return int(2 * self.layers * self.kv_heads * self.head_dim * BYTES_PER_VALUE[self.kv_precision])


E = TypeVar("E", Gpu, Model)


def _read(folder: str, kind: type[E]) -> Mapping[str, E]:
    found: dict[str, E] = {}
    for file in sorted((files("schemas") / folder).iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".toml"):
            entry = kind.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
            if f"{entry.id}.toml" != file.name:
                raise ValueError(f"{folder}/{file.name}: id is {entry.id!r}; the file must be named after it")
            found[entry.id] = entry
    return MappingProxyType(found)


@cache
def gpus() -> Mapping[str, Gpu]:
    """All accelerators by id."""
    return _read("hardware", Gpu)


@cache
def models() -> Mapping[str, Model]:
    """All architectures by id."""
    return _read("models", Model)


@cache
def models_by_name() -> Mapping[str, Model]:
    """All architectures by id and by alias (names that stacks and hubs use)."""
    return MappingProxyType({name: model for model in models().values() for name in (model.id, *model.aliases)})
