"""Whom we serve and with what: `tenants.toml`, `slo.toml`, `inventory.toml`."""

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from schemas.catalog import Precision
from schemas.source import Refusal
from schemas.values import Effective, Entry, Milliseconds, Share, TimeZone, overlaps, unknown

TenantId = Annotated[str, StringConstraints(pattern=r"^[^\s/][^\s]{0,127}$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Watts = Annotated[int, Field(ge=1, le=100_000)]
Purchase = Literal["on_demand", "reserved", "spot", "owned"]  # how GPUs were bought
UNKNOWN_TENANT = "unknown"  # requests that no tenant can be told for; shown, never hidden


class Tenant(Entry):
    """`aliases`: what gateways call it (team ids). `billing_account` defaults to the id, `time_zone` decides its billing month."""

    id: TenantId
    name: str = ""
    aliases: tuple[Name, ...] = ()
    billing_account: str = ""
    time_zone: TimeZone = "UTC"

    @field_validator("id")
    @classmethod
    def is_not_the_word_for_unknown(cls, value: str) -> str:
        if value == UNKNOWN_TENANT:
            raise ValueError(f"{value!r} is the name of requests without a tenant")
        return value


class Tenants(Entry):
    tenant: tuple[Tenant, ...] = ()

    def ids(self) -> frozenset[str]:
        return frozenset(tenant.id for tenant in self.tenant)

    def refusals(self) -> Iterator[Refusal]:
        """An id or alias that two tenants claim."""
        owner: dict[str, str] = {}
        for index, tenant in enumerate(self.tenant):
            for place, name in (("id", tenant.id), *(("aliases", alias) for alias in tenant.aliases)):
                if name in owner:
                    yield Refusal(("tenant", index, place), f"{name!r} already means tenant {owner[name]!r}")
                owner.setdefault(name, tenant.id)


class Slo(Effective):
    """Objectives, all `<=`. "" matches every tenant or model; the most specific row wins: tenant + model, tenant, model, all."""

    tenant: str = ""
    model: str = ""
    ttft_ms: Milliseconds | None = None
    tpot_ms: Milliseconds | None = None
    e2e_ms: Milliseconds | None = None

    @model_validator(mode="after")
    def has_an_objective(self) -> "Slo":
        if self.ttft_ms is None and self.tpot_ms is None and self.e2e_ms is None:
            raise ValueError("give at least one of ttft_ms, tpot_ms, e2e_ms")
        return self


class Slos(Entry):
    slo: tuple[Slo, ...] = ()

    def refusals(self, models: Collection[str], tenants: Collection[str]) -> Iterator[Refusal]:
        yield from overlaps("slo", self.slo, lambda row: [(row.tenant, row.model)], "the objective")
        for index, row in enumerate(self.slo):
            if row.model and row.model not in models:
                yield unknown(("slo", index, "model"), "model", row.model, models, "name it in inventory.toml as [[model]]")
            if row.tenant and tenants and row.tenant not in tenants:
                yield unknown(("slo", index, "tenant"), "tenant", row.tenant, tenants, "list it in tenants.toml")


class Efficiency(Entry):
    """Which part of the data sheet a real engine reaches."""

    compute: Share = Decimal("0.45")
    memory: Share = Decimal("0.70")


class Reservation(Entry):
    tenant: TenantId
    gpus: Annotated[int, Field(ge=1)]


class Replica(Effective):
    """All GPUs of one tensor- and pipeline-parallel group. `match`: resource attributes of its engine spans.

    Without `match` the resource attribute tokenpath.replica.id must be the id. A gpu or model that the catalogue does not know
    is allowed: its time is then split by token counts (tier C) instead of by a roofline. Watts are those of one GPU; not given, those of
    the catalogue.
    """

    id: Name
    match: Mapping[Name, str] = Field(default_factory=dict)
    model: Name
    gpu: Name
    gpus: Annotated[int, Field(ge=1, le=65_535)]
    purchase: Purchase = "on_demand"
    watts_busy: Watts | None = None
    watts_idle: Watts | None = None
    precision: Precision = "bf16"
    efficiency: Efficiency = Efficiency()
    prefill_budget_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 8192
    reserved_for: Reservation | None = None

    @model_validator(mode="after")
    def reserves_at_most_what_it_has(self) -> "Replica":
        if self.reserved_for is not None and self.reserved_for.gpus > self.gpus:
            raise ValueError(f"reserves {self.reserved_for.gpus} GPUs of {self.gpus}")
        return self

    def resource(self) -> dict[str, str]:
        """What a span's resource must hold to come from this replica; never empty."""
        return dict(sorted(self.match.items())) or {"tokenpath.replica.id": self.id}


class OwnModel(Entry):
    """A name that the catalogue does not have: a fine-tune (`like` names its architecture) or a model of a foreign provider."""

    id: Name
    like: str = ""
    aliases: tuple[Name, ...] = ()


class Inventory(Entry):
    replica: tuple[Replica, ...] = ()
    model: tuple[OwnModel, ...] = ()

    def model_names(self) -> frozenset[str]:
        own = (name for model in self.model for name in (model.id, *model.aliases))
        return frozenset((*own, *(replica.model for replica in self.replica)))

    def misspellings(self, gpus: Collection[str], models: Collection[str]) -> Iterator[str]:
        """Names that the catalogue does not have, but nearly: allowed, and most likely a slip that costs the roofline."""
        known = {"gpu": gpus, "model": (*models, *(name for own in self.model for name in (own.id, *own.aliases)))}
        for replica in self.replica:
            for key, names in known.items():
                name = getattr(replica, key)
                if name not in names and (near := get_close_matches(name, sorted(names), n=1, cutoff=0.8)):
                    slip = f"replica {replica.id!r}: {key} {name!r} is in no catalogue, so its time is split by token counts"
                    yield f"{slip}; did you mean {near[0]!r}?"

    def refusals(self, models: Collection[str], tenants: Collection[str]) -> Iterator[Refusal]:
        """`models`: the catalogue's names."""
        yield from overlaps("replica", self.replica, lambda row: [row.id], "the replica")
        yield from overlaps("replica", self.replica, lambda row: [tuple(row.resource().items())], "the match")
        taken = set(models)
        for index, model in enumerate(self.model):
            if model.like and model.like not in models:
                yield unknown(("model", index, "like"), "model", model.like, models, "name one of schemas/models")
            for name in (model.id, *model.aliases):
                if name in taken:
                    yield Refusal(("model", index), f"{name!r} is already the name of a model")
                taken.add(name)
        for index, replica in enumerate(self.replica):
            if replica.reserved_for and tenants and replica.reserved_for.tenant not in tenants:
                place = ("replica", index, "reserved_for")
                yield unknown(place, "tenant", replica.reserved_for.tenant, tenants, "list it in tenants.toml")
