"""A scraped page (Prometheus text or OpenMetrics) as OTLP metrics. Pure.

Names stay as exposed (`vllm:prompt_tokens_total`). Counters are cumulative sums, with the start time that `_created` tells; gauges, info
and untyped samples are gauges; classic histograms are cumulative histograms; summaries stay summaries.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, DataPointFlags, Metric
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

Format = Literal["text", "openmetrics"]
Labels = tuple[tuple[str, str], ...]  # sorted
Series = tuple[str, Labels]

LABELS_MAX = 64
NAME_CHARACTERS_MAX = 256  # of metrics and labels: the store cuts longer ones
VALUE_CHARACTERS_MAX = 4096
PLAIN_COUNTER = re.compile(r"^#[ \t]+TYPE[ \t]+(\S+)[ \t]+counter[ \t]*$", re.MULTILINE)
NO_RECORDED_VALUE = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK


class NotAnExposition(ValueError):
    """The page cannot be read, or is beyond the limits. One line for the operator."""


@dataclass(frozen=True, slots=True)
class Page:
    """`gauges`: the series whose end must be told when a later page does not have them."""

    metrics: Sequence[Metric]
    samples: int
    gauges: frozenset[Series]


@dataclass(slots=True)
class _Histogram:
    buckets: dict[float, float] = field(default_factory=dict)
    quantiles: dict[float, float] = field(default_factory=dict)
    count: float | None = None
    sum: float | None = None
    at_ns: int = 0


def read(text: str, form: Format, at_ns: int, samples_max: int) -> Page:
    """Samples without a time of their own are of `at_ns`. Raises NotAnExposition."""
    families = _families(text, form, samples_max)
    started = _created(families)
    plain = set(PLAIN_COUNTER.findall(text)) if form == "text" else set()
    metrics: dict[tuple[str, str], Metric] = {}
    gauges: set[Series] = set()
    for family in families:
        if family.type in ("histogram", "summary"):
            _distribution(metrics, family, started, at_ns)
            continue
        for sample in family.samples:
            labels = _labels(sample.labels)
            if _is_created(family, sample.name, started):
                continue
            kind = "sum" if family.type == "counter" else "gauge"
            # The parser adds `_total` to counters that are exposed without it.
            name = sample.name.removesuffix("_total") if kind == "sum" and family.name in plain else sample.name
            metric = _metric(metrics, name, kind, family.unit)
            point = getattr(metric, kind).data_points.add(time_unix_nano=_time(sample, at_ns), attributes=_attributes(labels))
            point.as_double = sample.value
            if kind == "sum":
                point.start_time_unix_nano = started.get((family.name, labels), 0)
            else:
                gauges.add((name, labels))
    return Page(tuple(metrics.values()), sum(len(family.samples) for family in families), frozenset(gauges))


def gauge(name: str, value: float, at_ns: int, unit: str = "") -> Metric:
    metric = Metric(name=name, unit=unit)
    metric.gauge.data_points.add(time_unix_nano=at_ns, as_double=value)
    return metric


def ended(series: Iterable[Series], at_ns: int) -> list[Metric]:
    """Says of gauges that they have no value from `at_ns` on (Prometheus' staleness marker, in OTLP's words)."""
    metrics: dict[tuple[str, str], Metric] = {}
    for name, labels in sorted(series):
        metric = _metric(metrics, name, "gauge", "")
        metric.gauge.data_points.add(time_unix_nano=at_ns, attributes=_attributes(labels), flags=NO_RECORDED_VALUE)
    return list(metrics.values())


def requests(resource: Mapping[str, str], metrics: Sequence[Metric], bytes_max: int) -> Iterator[ExportMetricsServiceRequest]:
    """All metrics of one resource in requests of at most `bytes_max`; only a single larger data point exceeds it."""
    head = _request(resource, ())
    room = max(1, bytes_max - head.ByteSize() - 32)
    together: list[Metric] = []
    size = 0
    for piece in (piece for metric in metrics for piece in _pieces(metric, room)):
        here = piece.ByteSize() + 8
        if together and size + here > room:
            yield _request(resource, together)
            together, size = [], 0
        together.append(piece)
        size += here
    if together:
        yield _request(resource, together)


def _request(resource: Mapping[str, str], metrics: Sequence[Metric]) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    block = request.resource_metrics.add()
    block.resource.attributes.extend(_attributes(tuple(sorted(resource.items()))))
    block.scope_metrics.add(metrics=metrics).scope.name = "tokenpath.scrape"
    return request


def _pieces(metric: Metric, room: int) -> Iterator[Metric]:
    """The metric, in halves of its data points until each fits."""
    kind = metric.WhichOneof("data")
    points = getattr(metric, kind).data_points if kind else ()
    if metric.ByteSize() + 8 <= room or len(points) < 2 or kind is None:
        yield metric
        return
    for part in (points[: len(points) // 2], points[len(points) // 2 :]):
        half = Metric(name=metric.name, unit=metric.unit)
        target = getattr(half, kind)
        if kind in ("sum", "histogram"):
            target.aggregation_temporality = getattr(metric, kind).aggregation_temporality
        if kind == "sum":
            target.is_monotonic = metric.sum.is_monotonic
        target.data_points.extend(part)
        yield from _pieces(half, room)


def _families(text: str, form: Format, samples_max: int) -> list[Any]:
    parse = openmetrics_parser.text_string_to_metric_families if form == "openmetrics" else parser.text_string_to_metric_families
    found: list[Any] = []
    samples = 0
    try:
        for family in parse(text):
            samples += len(family.samples)
            if samples > samples_max:
                raise NotAnExposition(f"more than {samples_max} samples ([[scrape]] max_samples)")
            for sample in family.samples:
                _check(sample.name, sample.labels)
            found.append(family)
    except NotAnExposition:
        raise
    except Exception as error:  # a foreign page in a foreign parser: whatever it stumbles over, the page is what is wrong
        raise NotAnExposition(f"not {'OpenMetrics' if form == 'openmetrics' else 'Prometheus text'}: {str(error)[:200]!r}") from error
    return found


def _check(name: str, labels: Mapping[str, str]) -> None:
    if len(labels) > LABELS_MAX:
        raise NotAnExposition(f"{name[:80]!r} has {len(labels)} labels, at most {LABELS_MAX} are taken")
    for word in (name, *labels):
        if len(word) > NAME_CHARACTERS_MAX:
            raise NotAnExposition(f"the name {word[:80]!r}… has {len(word)} characters, at most {NAME_CHARACTERS_MAX} are taken")
    for key, value in labels.items():
        if len(value) > VALUE_CHARACTERS_MAX:
            raise NotAnExposition(f"label {key!r} of {name!r} has {len(value)} characters, at most {VALUE_CHARACTERS_MAX} are taken")


def _created(families: Iterable[Any]) -> dict[Series, int]:
    """(family, labels) -> start in ns, from `_created`: in OpenMetrics a sample of the family, in text a gauge beside it."""
    counted = {family.name for family in families if family.type in ("counter", "histogram", "summary")}
    found: dict[Series, int] = {}
    for family in families:
        for sample in family.samples:
            base = sample.name.removesuffix("_created")
            if base != sample.name and base in counted and math.isfinite(sample.value) and 0 < sample.value < 2**33:
                found[base, _labels(sample.labels)] = round(sample.value * 1_000_000) * 1000
    return found


def _is_created(family: Any, name: str, started: Mapping[Series, int]) -> bool:
    base = name.removesuffix("_created")
    return base != name and (family.type == "counter" or any(base == known for known, _ in started))


def _labels(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _attributes(labels: Labels) -> list[KeyValue]:
    attributes = []
    for key, value in labels:
        attribute = KeyValue(key=key)
        attribute.value.string_value = value
        attributes.append(attribute)
    return attributes


def _time(sample: Any, at_ns: int) -> int:
    if sample.timestamp is None:
        return at_ns
    told = float(sample.timestamp)
    return round(told * 1_000_000) * 1000 if math.isfinite(told) and 0 < told < 2**33 else at_ns


def _metric(metrics: dict[tuple[str, str], Metric], name: str, kind: str, unit: str) -> Metric:
    metric = metrics.get((name, kind))
    if metric is None:
        metric = metrics[name, kind] = Metric(name=name, unit=unit or "")
        if kind == "sum":
            metric.sum.is_monotonic = True
        if kind in ("sum", "histogram"):
            getattr(metric, kind).aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    return metric


def _distribution(metrics: dict[tuple[str, str], Metric], family: Any, started: Mapping[Series, int], at_ns: int) -> None:
    found: dict[Labels, _Histogram] = defaultdict(_Histogram)
    for sample in family.samples:
        suffix = sample.name.removeprefix(family.name)
        own = {"_bucket": "le", "": "quantile"}.get(suffix)
        edge = sample.labels.get(own) if own else None
        one = found[_labels({key: value for key, value in sample.labels.items() if key != own})]
        one.at_ns = _time(sample, at_ns)
        if suffix == "_bucket" and edge is not None:
            one.buckets[float(edge)] = sample.value
        elif suffix == "" and edge is not None:
            one.quantiles[float(edge)] = sample.value
        elif suffix == "_count":
            one.count = sample.value
        elif suffix == "_sum":
            one.sum = sample.value
    for labels, one in found.items():
        count = one.count if one.count is not None else one.buckets.get(math.inf)
        counts = [value for _, value in sorted(one.buckets.items())]
        if count is None or not all(math.isfinite(value) and 0 <= value < 2**63 for value in (count, *counts)):
            continue  # a distribution without a count tells nothing
        point = getattr(_metric(metrics, family.name, family.type, family.unit), family.type).data_points.add(
            time_unix_nano=one.at_ns,
            start_time_unix_nano=started.get((family.name, labels), 0),
            attributes=_attributes(labels),
            count=int(count),
        )
        if one.sum is not None:
            point.sum = one.sum
        if family.type == "summary":
            for quantile, value in sorted(one.quantiles.items()):
                point.quantile_values.add(quantile=quantile, value=value)
        elif counts:
            if math.inf not in one.buckets:
                counts.append(count)
            point.explicit_bounds.extend(edge for edge in sorted(one.buckets) if edge != math.inf)
            point.bucket_counts.extend(max(0, int(high) - int(low)) for low, high in zip([0, *counts], counts, strict=False))
