"""`[[metric]]` readings flattened into rows of `metric_rules`: one row per name, in one total order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.metric import QUANTITIES, ROLES, Metric
from schemas.profile_rules import Source
from schemas.source import Refusal, refused

MICRO = 1e6


@dataclass(frozen=True, slots=True)
class MetricRule:
    """A row of `metric_rules`, but for its config hash. Names are those of the columns."""

    profile: str
    version: int
    rule_no: int
    rank: int
    metric: str
    quantity: str
    kind: str
    unit: str
    combine: str
    reads: str
    of: str
    labels: Mapping[str, str]
    micro_per_unit: float
    device_keys: tuple[str, ...]
    host_keys: tuple[str, ...]
    replica_keys: tuple[str, ...]
    model_keys: tuple[str, ...]
    once_roles: tuple[str, ...]
    once_labels: tuple[str, ...]
    repeated_by: tuple[str, ...]


def metric_rules(sources: Sequence[Source]) -> list[MetricRule]:
    """All rules, rank = position: where two tell one quantity of one place, the lower rank is believed.

    Raises SourceError where two readings want the same series for the same quantity.
    """
    found: list[MetricRule] = []
    taken: dict[tuple[str, str, tuple[tuple[str, str], ...]], str] = {}
    for source in sorted(sources, key=lambda one: one.profile.profile):
        for number, metric in enumerate(source.profile.metric):
            for name in _spellings(metric):
                key = (name, metric.quantity, tuple(sorted(metric.where.items())))
                if key in taken:
                    message = f"{metric.quantity} is read from {name!r} already in {taken[key]}"
                    raise refused(source.file, source.text, [Refusal(("metric", number), message)])
                taken[key] = f"[[metric]] {number + 1} of {source.file}"
                found.append(_rule(source, number, metric, name, len(found)))
    return found


def _spellings(metric: Metric) -> Iterator[str]:
    """Clients and Collectors add `_total` to counters or take it away, and write `_` for `:`: that is not the stack's doing."""
    seen: set[str] = set()
    for name in metric.name:
        other = name.removesuffix("_total") if name.endswith("_total") else f"{name}_total"
        for spelling in (name, other) if metric.kind != "gauge" and metric.reads == "value" else (name,):
            for plain in (spelling, spelling.replace(":", "_")):
                if plain not in seen:
                    seen.add(plain)
                    yield plain


def _rule(source: Source, number: int, metric: Metric, name: str, rank: int) -> MetricRule:
    profile = source.profile
    quantity, amount = QUANTITIES[metric.quantity], metric.amount()
    assert amount
    once_per = profile.labels.once_per if metric.once_per is None else metric.once_per
    return MetricRule(
        profile=profile.profile,
        version=profile.version,
        rule_no=number + 1,
        rank=rank,
        metric=name,
        quantity=metric.quantity,
        kind=metric.kind,
        unit=quantity.unit,
        combine=quantity.combine,
        reads=metric.reads,
        of=metric.of,
        labels=dict(sorted(metric.where.items())),
        micro_per_unit=amount[1] * MICRO,
        device_keys=profile.labels.device,
        host_keys=profile.labels.host,
        replica_keys=profile.labels.replica,
        model_keys=profile.labels.model,
        once_roles=tuple(word for word in once_per if word in ROLES),
        once_labels=tuple(word for word in once_per if word not in ROLES),
        repeated_by=profile.labels.repeated_by if metric.repeated_by is None else metric.repeated_by,
    )
