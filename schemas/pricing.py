"""The price book (`prices.toml`): what a GPU-hour costs us, what a million tokens is charged at, and which outcomes are charged.

Two books that are never added up: `gpu` rows feed the cost side, `token` rows the price side. Rates of other pools (power,
network, ...) are no keys yet, so what a GPU rate `includes` cannot be loaded a second time.
"""

from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from schemas.source import Refusal
from schemas.stages import Outcome
from schemas.usage import ATOMS_PER_UNIT
from schemas.values import Effective, Entry, Money, overlaps, unknown

Bucket = Literal["input_uncached", "input_cache_read", "input_cache_write", "output_text", "output_reasoning"]
BUCKETS: tuple[Bucket, ...] = ("input_uncached", "input_cache_read", "input_cache_write", "output_text", "output_reasoning")
Included = Literal["power", "facility", "network", "kv_storage", "gateway", "overhead"]

Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class GpuPrice(Effective):
    """One GPU for one hour. `includes`: what the rate already pays for."""

    id: Name
    gpu: Name
    usd_per_gpu_hour: Money
    includes: tuple[Included, ...] = ()

    @property
    def atoms_per_gpu_hour(self) -> int:
        return int(Fraction(self.usd_per_gpu_hour) * ATOMS_PER_UNIT)  # Decimal would round at 28 digits


class TokenPrice(Effective):
    """Prices per million tokens and bucket. tenant "" is the list price. A bucket left out is unpriced, not free."""

    sku: Name
    model: Annotated[tuple[Name, ...], Field(min_length=1)]
    tenant: str = ""
    usd_per_million_tokens: Annotated[Mapping[Bucket, Money], Field(min_length=1)]


class Billable(Entry):
    """Outcome -> buckets that a tenant pays for; "all" is every bucket. An outcome left out keeps its default."""

    useful: tuple[Bucket | Literal["all"], ...] = ("all",)
    late: tuple[Bucket | Literal["all"], ...] = ("all",)
    aborted: tuple[Bucket | Literal["all"], ...] = ("all",)
    failed: tuple[Bucket | Literal["all"], ...] = ()
    superseded: tuple[Bucket | Literal["all"], ...] = ()
    blocked: tuple[Bucket | Literal["all"], ...] = ("input_uncached", "input_cache_read", "input_cache_write")
    unmetered: tuple[Bucket | Literal["all"], ...] = ()

    def pairs(self) -> list[tuple[Outcome, Bucket]]:
        """(outcome, bucket) of everything that is charged."""
        return [
            (Outcome(outcome), bucket)
            for outcome in type(self).model_fields
            for bucket in BUCKETS
            if bucket in getattr(self, outcome) or "all" in getattr(self, outcome)
        ]


class PriceBook(Entry):
    """`provider`: who bills, as the rows of a bill name it."""

    provider: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=128)] = "Tokenpath operator"
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")] = "USD"
    gpu: tuple[GpuPrice, ...] = ()
    token: tuple[TokenPrice, ...] = ()
    billable: Billable = Billable()

    @field_validator("gpu")
    @classmethod
    def ids_are_unique(cls, rows: tuple[GpuPrice, ...]) -> tuple[GpuPrice, ...]:
        if len({row.id for row in rows}) != len(rows):
            raise ValueError("two [[gpu]] rows have the same id; ledgers name a price by it")
        return rows

    def refusals(self, gpus: Collection[str], models: Collection[str], tenants: Collection[str]) -> Iterator[Refusal]:
        """What only shows beside other rows and files. An empty `tenants` means that none are listed, and any may be named."""
        yield from overlaps("gpu", self.gpu, lambda row: [row.gpu], "the price")
        yield from overlaps(
            "token",
            self.token,
            lambda row: [(model, row.tenant, bucket) for model in row.model for bucket in row.usd_per_million_tokens],
            "the token price",
        )
        for index, gpu in enumerate(self.gpu):
            if gpu.gpu not in gpus:
                yield unknown(("gpu", index, "gpu"), "gpu", gpu.gpu, gpus, "it is neither in schemas/hardware nor in inventory.toml")
        for index, token in enumerate(self.token):
            for model in token.model:
                if model not in models:
                    remedy = "it is not in schemas/models; name it in inventory.toml as [[model]] or as a replica's model"
                    yield unknown(("token", index, "model"), "model", model, models, remedy)
            if token.tenant and tenants and token.tenant not in tenants:
                yield unknown(("token", index, "tenant"), "tenant", token.tenant, tenants, "list it in tenants.toml")
