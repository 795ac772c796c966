"""What a replay is asked to do: one frozen model, checked before anything runs."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from collectors.workload.trace import TraceFormat
from schemas.catalog import Precision

Ratio = Annotated[Decimal, Field(ge=0, le=1)]
Efficiency = Annotated[Decimal, Field(gt=0, le=1)]
RoutingPolicy = Literal["prefix_aware", "round_robin"]
Name = Annotated[str, Field(min_length=1, max_length=256)]

DEFAULT_TENANTS = ("acme", "globex", "initech")
DEFAULT_MODELS = ("llama-3.3-70b", "llama-3.1-8b")


class Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReplicaOptions(Options):
    """One engine: the GPUs of a tensor-parallel group and how its scheduler is set (names and defaults as vLLM's v1 scheduler)."""

    id: Name
    model: Name
    gpu: str = "h100-sxm"
    gpus: Annotated[int, Field(ge=1, le=1024)] = 1
    precision: Precision = "fp8"
    compute_efficiency: Efficiency = Decimal("0.45")
    memory_efficiency: Efficiency = Decimal("0.70")
    prefill_budget_tokens: Annotated[int, Field(ge=1, le=1_048_576)] = 8192
    running_max: Annotated[int, Field(ge=1, le=4096)] = 128
    memory_share: Efficiency = Decimal("0.90")  # of HBM, for weights and KV cache
    kv_capacity_tokens: Annotated[int, Field(ge=1024)] | None = None  # instead of what memory_share leaves


class Faults(Options):
    """Shares of requests (`unavailable`, `crash`: of attempts) that chance singles out. Late answers need no share: load makes them."""

    rejected: Ratio = Decimal("0.01")  # the gateway says 429 before any attempt
    blocked: Ratio = Decimal("0.01")  # a guardrail withholds the finished answer
    leaves: Ratio = Decimal("0.08")  # clients that leave at a drawn moment, if the answer is not complete by then
    unavailable: Ratio = Decimal("0.015")  # 503 before the engine took it
    crash: Ratio = Decimal("0.015")  # 500 after prefill work, before the first token
    poisoned: Ratio = Decimal("0.005")  # every attempt crashes
    attempts_max: Annotated[int, Field(ge=1, le=10)] = 3


class ReplaySlo(Options):
    """Latency promise in ms. The most specific row wins: tenant and model, tenant, model, all (`""`). None: not promised."""

    tenant: str = ""
    model: str = ""
    ttft_ms: Annotated[int, Field(gt=0)] | None = 1000
    tpot_ms: Annotated[int, Field(gt=0)] | None = 60
    e2e_ms: Annotated[int, Field(gt=0)] | None = 60_000


class ReplayOptions(Options):
    """`file` None: the packaged example (`example_requests` of them). `start_ns`: unix ns of the trace's time 0. `to`: one target or
    several, which take batches in turn. `via`: the OpenTelemetry SDK and its exporters, or OTLP bytes written directly (files: bytes)."""

    file: Path | None = None
    format: TraceFormat = "mooncake"
    limit: Annotated[int, Field(ge=1)] | None = None
    example_requests: Annotated[int, Field(ge=1, le=10_000_000)] = 1500
    speed: Annotated[Decimal, Field(gt=0, le=1000)] = Decimal(1)
    start_ns: Annotated[int, Field(ge=0, lt=1 << 62)]
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 7

    replicas: Annotated[int, Field(ge=1, le=1000)] = 4
    models: Annotated[tuple[Name, ...], Field(min_length=1)] = DEFAULT_MODELS
    fleet: tuple[ReplicaOptions, ...] = ()  # given: replaces replicas and models
    tenants: Annotated[tuple[Name, ...], Field(min_length=1)] = DEFAULT_TENANTS
    routing: RoutingPolicy = "prefix_aware"
    faults: Faults = Faults()
    slos: tuple[ReplaySlo, ...] = (ReplaySlo(),)
    window_seconds: Annotated[int, Field(ge=1, le=86_400)] = 900

    emit: Literal["all", "vllm"] = "all"
    to: Annotated[tuple[str, ...], Field(min_length=1)]
    via: Literal["sdk", "bytes"] = "sdk"
    key: SecretStr | None = None
    batch_spans: Annotated[int, Field(ge=1, le=10_000)] = 500
    timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 60.0  # for one batch, the exporter's own retries included
    truth_dir: Path | None = None

    @field_validator("to", mode="before")
    @classmethod
    def one_target_may_stand_alone(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("to")
    @classmethod
    def targets_are_known(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        for target in targets:
            url = urlsplit(target)
            if url.scheme == "file" and target.removeprefix("file:"):
                continue
            if url.scheme not in ("grpc", "grpcs", "http", "https") or not url.hostname:
                raise ValueError(f"{target!r} is no target; give grpc://host:port, http://host:port or file:DIR")
        return targets

    @model_validator(mode="after")
    def names_are_unique(self) -> "ReplayOptions":
        for what, names in (("replica", [replica.id for replica in self.fleet]), ("tenant", self.tenants), ("model", self.models)):
            if len(set(names)) != len(names):
                raise ValueError(f"a {what} is named twice")
        return self


LAYOUTS: Mapping[str, tuple[str, int]] = MappingProxyType({"llama-3.3-70b": ("llama70b", 4), "llama-3.1-8b": ("llama8b", 1)})


def default_fleet(models: tuple[str, ...], replicas: int, gpus_for: Mapping[str, int]) -> tuple[ReplicaOptions, ...]:
    """`replicas` engines dealt to the models in turn, H100 and fp8; `gpus_for` says how many GPUs a model without a layout needs."""
    fleet = []
    for number in range(replicas):
        model = models[number % len(models)]
        name, gpus = LAYOUTS.get(model) or (model, gpus_for[model])
        fleet.append(ReplicaOptions(id=f"{name}-{number // len(models)}", model=model, gpus=gpus))
    return tuple(sorted(fleet, key=lambda replica: (models.index(replica.model), replica.id)))
