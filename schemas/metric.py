"""`[[metric]]` of a profile file: what one metric of a serving stack means. Data, as the spans of the same file are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

Combine = Literal["sum", "mean"]
Kind = Literal["counter", "gauge", "rate"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """`level`: a state that has a mean and a largest reading over a window; else an amount that adds up over time.

    `combine`: what several series of one place (engines of a replica, ports of a host) make together.
    """

    unit: str
    level: bool = False
    combine: Combine = "sum"


# Every quantity of `measures`, with the one unit that it has there.
QUANTITIES: Mapping[str, Quantity] = {
    "prompt_tokens": Quantity("token"),  # entered an engine, cached ones included
    "generation_tokens": Quantity("token"),
    "cached_tokens": Quantity("token"),  # of the prompt tokens, those found in a KV cache
    "draft_tokens": Quantity("token"),
    "accepted_draft_tokens": Quantity("token"),
    "kv_lookup_tokens": Quantity("token"),  # asked of a KV layer
    "kv_hit_tokens": Quantity("token"),  # found by it
    "finished_requests": Quantity("request"),
    "aborted_requests": Quantity("request"),
    "rejected_requests": Quantity("request"),
    "preemptions": Quantity("preemption"),
    "gateway_requests": Quantity("request"),
    "gateway_input_tokens": Quantity("token"),
    "gateway_output_tokens": Quantity("token"),
    "running_requests": Quantity("request", level=True),
    "waiting_requests": Quantity("request", level=True),
    "kv_used_ratio": Quantity("ratio", level=True, combine="mean"),
    "kv_used_tokens": Quantity("token", level=True),
    "kv_host_bytes": Quantity("B", level=True),  # held in the memory of hosts
    "kv_disk_bytes": Quantity("B", level=True),
    "kv_remote_bytes": Quantity("B", level=True),
    "kv_capacity_bytes": Quantity("B", level=True),
    "kv_load_bytes": Quantity("B"),  # from a lower tier to the device
    "kv_store_bytes": Quantity("B"),
    "kv_evicted_bytes": Quantity("B"),
    "kv_transfer_bytes": Quantity("B"),  # between workers
    "kv_transfer_seconds": Quantity("s"),
    "kv_sent_bytes": Quantity("B"),  # as the transfer library counts, beside the engine
    "kv_received_bytes": Quantity("B"),
    "kv_agent_seconds": Quantity("s"),
    "busy_seconds": Quantity("s"),  # in which an engine ran steps
    "collective_seconds": Quantity("s", level=True, combine="mean"),  # how long one collective takes
    "gpu_energy_joules": Quantity("J"),
    "gpu_power_watts": Quantity("W", level=True),
    "gpu_busy_ratio": Quantity("ratio", level=True, combine="mean"),
    "gpu_tensor_ratio": Quantity("ratio", level=True, combine="mean"),
    "gpu_memory_ratio": Quantity("ratio", level=True, combine="mean"),  # of its bandwidth
    "gpu_memory_used_bytes": Quantity("B", level=True),
    "gpu_memory_free_bytes": Quantity("B", level=True),
    "nvlink_bytes": Quantity("B"),  # both directions
    "nvlink_tx_bytes": Quantity("B"),
    "nvlink_rx_bytes": Quantity("B"),
    "pcie_tx_bytes": Quantity("B"),
    "pcie_rx_bytes": Quantity("B"),
    "nic_tx_bytes": Quantity("B"),
    "nic_rx_bytes": Quantity("B"),
    "target_up": Quantity("ratio", level=True, combine="mean"),  # share of scrapes that were answered
}

# Unit as a stack writes it -> (unit of the quantity, factor).
UNITS: Mapping[str, tuple[str, float]] = {
    **{unit: (unit, 1.0) for unit in ("token", "request", "preemption", "ratio", "s", "B", "J", "W")},
    "percent": ("ratio", 0.01),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "ns": ("s", 1e-9),
    "min": ("s", 60.0),
    "mJ": ("J", 1e-3),
    "kWh": ("J", 3.6e6),
    "mW": ("W", 1e-3),
    "kW": ("W", 1e3),
    "kB": ("B", 1e3),
    "MB": ("B", 1e6),
    "GB": ("B", 1e9),
    "KiB": ("B", 2.0**10),
    "MiB": ("B", 2.0**20),
    "GiB": ("B", 2.0**30),
}
PER_SECOND = {"W": "J", "mW": "mJ"}  # a rate whose unit has a name of its own; else it ends in "/s"
ROLES = ("device", "host", "replica", "model")

Text = Annotated[str, StringConstraints(min_length=1, max_length=256)]


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) != len(names):
        raise ValueError("a name is given twice")
    return names


Names = Annotated[tuple[Text, ...], BeforeValidator(_several), AfterValidator(_once), Field(max_length=32)]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Labels(Part):
    """Which labels (or resource attributes) name the thing that is measured; the first that has a value.

    `once_per`: these tell one measured thing from another, whatever other labels say: of the series of several exporters the largest
    counts, and a label that changes does not start a new counter. A role's name means its value, any other word is a label.
    `repeated_by`: series that differ only in these repeat one figure (tensor-parallel ranks); the largest counts.
    """

    device: Names = ()
    host: Names = ()
    replica: Names = ()
    model: Names = ()
    once_per: Names = ()
    repeated_by: Names = ()


class Metric(Part):
    """One quantity, and the metrics that tell it: the first name that has data counts, names are never summed; its series are.

    `kind`: a counter's increase is added up, a rate is integrated over time, a gauge gives mean and largest reading; what the exporter
    declares does not matter. `reads`: of a histogram or summary its sum or count. `of`: what it is a figure of; a device or host without
    a name is not read. `where`: labels that a series must have.
    """

    name: Annotated[Names, Field(min_length=1)]
    quantity: str
    kind: Kind
    unit: str
    reads: Literal["value", "sum", "count"] = "value"
    of: Literal["replica", "device", "host", "service"]
    where: Mapping[Text, str] = Field(default_factory=dict)
    once_per: Names | None = None  # instead of the file's
    repeated_by: Names | None = None

    @model_validator(mode="after")
    def hangs_together(self) -> "Metric":
        quantity = QUANTITIES.get(self.quantity)
        if quantity is None:
            raise ValueError(f"unknown quantity {self.quantity!r}; one of {', '.join(QUANTITIES)}")
        if quantity.level != (self.kind == "gauge"):
            kinds = "a gauge" if quantity.level else "a counter or a rate"
            raise ValueError(f"{self.quantity} is read from {kinds}, not from a {self.kind}")
        amount = self.amount()
        if amount is None or amount[0] != quantity.unit:
            raise ValueError(f"{self.quantity} is in {quantity.unit}; {self.unit!r} is not a unit of a {self.kind} that becomes it")
        return self

    def amount(self) -> tuple[str, float] | None:
        """Unit of the quantity and factor to it; of a rate, per second. None for a unit that does not exist."""
        unit = self.unit
        if self.kind == "rate":
            unit = PER_SECOND.get(unit) or (unit.removesuffix("/s") if unit.endswith("/s") else "")
        return UNITS.get(unit)
