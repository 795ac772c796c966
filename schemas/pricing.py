"""The price book (`prices.toml`): what GPU time and other pools cost us, what a million tokens is charged at, which outcomes are charged.

Two books that are never added up: `token` rows feed the price side, all others the cost side.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from schemas import pool_checks
from schemas.pool_pricing import GatewayPrice, KvStoragePrice, NetworkPrice, OverheadPrice, PoolPrice, PowerPrice
from schemas.source import Refusal
from schemas.stages import Outcome
from schemas.tenancy import Purchase, Replica
from schemas.usage import ATOMS_PER_UNIT
from schemas.values import Effective, Entry, Money, overlaps, unix_ns, unknown

Bucket = Literal["input_uncached", "input_cache_read", "input_cache_write", "output_text", "output_reasoning"]
BUCKETS: tuple[Bucket, ...] = ("input_uncached", "input_cache_read", "input_cache_write", "output_text", "output_reasoning")
Included = Literal["power", "facility", "network", "kv_storage", "gateway", "overhead"]

Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]


HOURS_PER_MONTH = 730  # of amortisation: 8,760 / 12


class GpuPrice(Effective):
    """One GPU for one hour. `includes`: what the rate already pays for. It holds for replicas of the same `purchase`."""

    id: Name
    gpu: Name
    purchase: Purchase = "on_demand"
    usd_per_gpu_hour: Money
    includes: tuple[Included, ...] = ()

    @property
    def atoms_per_gpu_hour(self) -> int:
        return int(Fraction(self.usd_per_gpu_hour) * ATOMS_PER_UNIT)  # Decimal would round at 28 digits


class OwnedGpuPrice(Effective):
    """One GPU that was bought: its price less what it will sell for, spread evenly over its months. Then it is paid off."""

    id: Name
    gpu: Name
    purchase_usd: Money
    residual_usd: Money = Decimal(0)
    amortisation_months: Annotated[int, Field(ge=1, le=240)]
    includes: tuple[Included, ...] = ()

    @model_validator(mode="after")
    def is_paid_off_in_time(self) -> "OwnedGpuPrice":
        if self.residual_usd > self.purchase_usd:
            raise ValueError("residual_usd is more than purchase_usd")
        if self.to is not None and self.to > self.paid_off:
            raise ValueError(f"is paid off at {self.paid_off:%Y-%m-%dT%H:%M:%SZ}, before its to; from then on give [[gpu]] a price")
        return self

    @property
    def purchase(self) -> Purchase:
        return "owned"

    @property
    def paid_off(self) -> datetime:
        return self.from_ + timedelta(hours=self.amortisation_months * HOURS_PER_MONTH)

    @property
    def to_ns(self) -> int:
        return unix_ns(self.to or self.paid_off)

    @property
    def atoms_per_gpu_hour(self) -> int:
        """Rounded down to whole atoms."""
        spread = (Fraction(self.purchase_usd) - Fraction(self.residual_usd)) / (self.amortisation_months * HOURS_PER_MONTH)
        return int(spread * ATOMS_PER_UNIT)


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
    owned_gpu: tuple[OwnedGpuPrice, ...] = ()
    power: tuple[PowerPrice, ...] = ()
    network: tuple[NetworkPrice, ...] = ()
    kv_storage: tuple[KvStoragePrice, ...] = ()
    gateway: tuple[GatewayPrice, ...] = ()
    overhead: tuple[OverheadPrice, ...] = ()
    token: tuple[TokenPrice, ...] = ()
    billable: Billable = Billable()

    @model_validator(mode="after")
    def ids_are_unique(self) -> "PriceBook":
        for table, rows in (("gpu", self.gpu_rates), *self.pools.items()):
            if len({row.id for row in rows}) != len(rows):
                raise ValueError(f"two [[{table}]] rows have the same id; ledgers name a price by it")
        return self

    @property
    def gpu_rates(self) -> tuple[GpuPrice | OwnedGpuPrice, ...]:
        return (*self.gpu, *self.owned_gpu)

    @property
    def pools(self) -> dict[str, Sequence[PoolPrice]]:
        """Table -> rows of everything that is neither GPU time nor a price of tokens."""
        return {
            "power": self.power,
            "network": self.network,
            "kv_storage": self.kv_storage,
            "gateway": self.gateway,
            "overhead": self.overhead,
        }

    def refusals(
        self, gpus: Collection[str], models: Collection[str], tenants: Collection[str], replicas: Sequence[Replica] = ()
    ) -> Iterator[Refusal]:
        """What only shows beside other rows and files. An empty `tenants` means that none are listed, and any may be named."""
        yield from overlaps("gpu", self.gpu, _bought, "the price")
        yield from overlaps("owned_gpu", self.owned_gpu, _bought, "the price")
        for index, owned in enumerate(self.owned_gpu):
            for number, rate in enumerate(self.gpu):
                if _bought(rate) == _bought(owned) and max(rate.from_ns, owned.from_ns) < min(rate.to_ns, owned.to_ns):
                    what = f"the price of {owned.gpu!r} must have one row at a time"
                    yield Refusal(("owned_gpu", index), f"overlaps [[gpu]] {number + 1}: {what}")
        rates = [(f"[[{table}]] {n + 1}", row) for table in ("gpu", "owned_gpu") for n, row in enumerate(getattr(self, table))]
        yield from pool_checks.refusals(self.pools, rates, replicas, gpus)
        yield from overlaps(
            "token",
            self.token,
            lambda row: [(model, row.tenant, bucket) for model in row.model for bucket in row.usd_per_million_tokens],
            "the token price",
        )
        for table in ("gpu", "owned_gpu"):
            for index, gpu in enumerate(getattr(self, table)):
                if gpu.gpu not in gpus:
                    yield unknown((table, index, "gpu"), "gpu", gpu.gpu, gpus, "it is neither in schemas/hardware nor in inventory.toml")
        for index, token in enumerate(self.token):
            for model in token.model:
                if model not in models:
                    remedy = "it is not in schemas/models; name it in inventory.toml as [[model]] or as a replica's model"
                    yield unknown(("token", index, "model"), "model", model, models, remedy)
            if token.tenant and tenants and token.tenant not in tenants:
                yield unknown(("token", index, "tenant"), "tenant", token.tenant, tenants, "list it in tenants.toml")


def _bought(row: GpuPrice | OwnedGpuPrice) -> list[Hashable]:
    """One price at a time per GPU and way of buying it."""
    return [row.gpu if row.purchase == "on_demand" else (row.gpu, row.purchase)]
