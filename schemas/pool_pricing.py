"""Prices of everything but GPU time and tokens: `[[power]]`, `[[network]]`, `[[kv_storage]]`, `[[gateway]]`, `[[overhead]]` of prices.toml.

Each row says what one hour, month, kWh or GiB of it costs. What a GPU rate `includes` is not priced a second time for the same replica.
"""

import re
from abc import abstractmethod
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from schemas.tenancy import Replica
from schemas.usage import ATOMS_PER_UNIT
from schemas.values import DecimalText, Effective, Money, TimeZone

Pool = Literal["power", "network", "kv_storage", "gateway", "overhead"]
Basis = Literal["hour", "month", "kwh", "gib"]
Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Amount = Annotated[DecimalText, Field(gt=0)]
_HOURS = re.compile(r"^([01]\d|2[0-4])-([01]\d|2[0-4])$")


def atoms(amount: Fraction) -> int:
    return int(amount * ATOMS_PER_UNIT)


class PoolPrice(Effective):
    """What every row has. Those of power have no resource of their own: theirs are the replicas."""

    pool: ClassVar[Pool]
    id: Name

    @property
    def name(self) -> str:
        """The resource in pools and ledger."""
        return ""

    @property
    def label(self) -> str:
        """The link, tier or kind; '' where the pool has none."""
        return ""

    @property
    def basis(self) -> Basis:
        return "hour"

    @property
    @abstractmethod
    def atoms(self) -> int:
        """What one `basis` of the whole row costs, rounded down to whole atoms."""

    @property
    def replicas(self) -> tuple[str, ...]:
        """Which replicas it is for; none named are all. `gpus` likewise."""
        return ()

    @property
    def gpus(self) -> tuple[str, ...]:
        return ()

    @property
    def zone(self) -> str:
        return "UTC"

    @property
    def local_hours(self) -> tuple[int, ...]:
        """Hours of the day, in `zone`, in which it holds; none are all."""
        return ()

    @property
    def covered(self) -> frozenset[str]:
        """What a GPU rate may say it `includes` that this row pays for."""
        return frozenset((self.pool,))

    def fits(self, replica: Replica) -> bool:
        return (not self.replicas or replica.id in self.replicas) and (not self.gpus or replica.gpu in self.gpus)


class ResourcePrice(PoolPrice):
    """`resource`: its name; rows that follow each other in time may share one. By default the id."""

    resource: Annotated[str, StringConstraints(max_length=128)] = ""

    @property
    def name(self) -> str:
        return self.resource or self.id


class PowerPrice(PoolPrice):
    """Energy of replicas at a tariff. Their name is the resource. `hours`: local hours of the day, "22-06" passes midnight."""

    pool: ClassVar[Pool] = "power"
    usd_per_kwh: Money
    pue: Annotated[DecimalText, Field(ge=1, le=10)] = Decimal(1)
    gpu: tuple[Name, ...] = ()
    replica: tuple[Name, ...] = ()
    hours: str = ""
    time_zone: TimeZone = "UTC"

    @field_validator("hours")
    @classmethod
    def is_a_stretch_of_the_day(cls, value: str) -> str:
        found = _HOURS.match(value)
        if value and (found is None or found[1] == found[2] or found[1] == "24"):
            raise ValueError(f'{value!r} is no stretch of whole hours; write "07-22", "22-07" past midnight, nothing for all day')
        return value

    @property
    def basis(self) -> Basis:
        return "kwh"

    @property
    def atoms(self) -> int:
        return atoms(Fraction(self.usd_per_kwh) * Fraction(self.pue))

    @property
    def replicas(self) -> tuple[str, ...]:
        return self.replica

    @property
    def gpus(self) -> tuple[str, ...]:
        return self.gpu

    @property
    def zone(self) -> str:
        return self.time_zone

    @property
    def local_hours(self) -> tuple[int, ...]:
        if not self.hours:
            return ()
        begin, end = int(self.hours[:2]), int(self.hours[3:])
        return tuple(sorted(hour % 24 for hour in range(begin, end if begin < end else end + 24)))


class NetworkPrice(ResourcePrice):
    """Ports by the hour, or bytes by the GiB, of one kind of link."""

    pool: ClassVar[Pool] = "network"
    link: Literal["nvlink", "switch", "nic", "egress"]
    ports: Count = 1
    usd_per_port_hour: Money | None = None
    usd_per_gib: Money | None = None
    replica: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def has_one_price(self) -> "NetworkPrice":
        if (self.usd_per_port_hour is None) == (self.usd_per_gib is None):
            raise ValueError("give one of usd_per_port_hour and usd_per_gib")
        return self

    @property
    def label(self) -> str:
        return self.link

    @property
    def basis(self) -> Basis:
        return "hour" if self.usd_per_gib is None else "gib"

    @property
    def atoms(self) -> int:
        if self.usd_per_gib is not None:
            return atoms(Fraction(self.usd_per_gib))
        return atoms(self.ports * Fraction(self.usd_per_port_hour or 0))

    @property
    def replicas(self) -> tuple[str, ...]:
        return self.replica


class KvStoragePrice(ResourcePrice):
    """Memory that keeps KV cache outside the GPU, by capacity."""

    pool: ClassVar[Pool] = "kv_storage"
    tier: Literal["host", "ssd", "remote"]
    gib: Amount
    usd_per_gib_hour: Money
    replica: tuple[Name, ...] = ()

    @property
    def label(self) -> str:
        return self.tier

    @property
    def atoms(self) -> int:
        return atoms(Fraction(self.gib) * Fraction(self.usd_per_gib_hour))

    @property
    def replicas(self) -> tuple[str, ...]:
        return self.replica


class GatewayPrice(ResourcePrice):
    """Gateway nodes by the hour."""

    pool: ClassVar[Pool] = "gateway"
    nodes: Count = 1
    usd_per_node_hour: Money

    @property
    def atoms(self) -> int:
        return atoms(self.nodes * Fraction(self.usd_per_node_hour))


class OverheadPrice(ResourcePrice):
    """What no attempt causes, by the hour or by the calendar month (UTC)."""

    pool: ClassVar[Pool] = "overhead"
    kind: Literal["staff", "software", "facility"]
    usd_per_hour: Money | None = None
    usd_per_month: Money | None = None

    @model_validator(mode="after")
    def has_one_price(self) -> "OverheadPrice":
        if (self.usd_per_hour is None) == (self.usd_per_month is None):
            raise ValueError("give one of usd_per_hour and usd_per_month")
        return self

    @property
    def label(self) -> str:
        return self.kind

    @property
    def basis(self) -> Basis:
        return "month" if self.usd_per_hour is None else "hour"

    @property
    def atoms(self) -> int:
        return atoms(Fraction(self.usd_per_month or self.usd_per_hour or 0))

    @property
    def covered(self) -> frozenset[str]:
        return frozenset((self.pool, self.kind))
