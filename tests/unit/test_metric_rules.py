"""[[metric]] of profiles: what is refused, and which rows a reading becomes."""

import pytest

from pipeline.attribution.measures import STALE_NS
from pipeline.configuration.versions import load_configuration
from schemas.metric import QUANTITIES
from schemas.metric_rules import MetricRule, metric_rules
from schemas.profile_rules import load
from schemas.settings import AttributionSettings, ScrapeSettings
from schemas.source import SourceError

METRIC = '[[metric]]\nname = "a:tokens"\nquantity = "prompt_tokens"\nkind = "counter"\nunit = "token"\nof = "replica"\n'


def rules(*texts: str) -> list[MetricRule]:
    return metric_rules([load(f"{n}.toml", f'profile = "p{n}"\nversion = 1\n{text}') for n, text in enumerate(texts)])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (METRIC.replace("prompt_tokens", "tokens"), 3, "unknown quantity 'tokens'"),
        (METRIC.replace('"token"', '"s"'), 3, "prompt_tokens is in token; 's' is not a unit of a counter"),
        (METRIC.replace('"counter"', '"gauge"'), 3, "is read from a counter or a rate, not from a gauge"),
        (METRIC.replace('"counter"', '"rate"'), 3, "'token' is not a unit of a rate"),
        (METRIC.replace('"replica"', '"pod"'), 8, "Input should be 'replica'"),
        (METRIC.replace('"a:tokens"', "[]"), 4, "at least 1"),
        (METRIC.replace('"a:tokens"', '["b", "b"]'), 4, "a name is given twice"),
        (METRIC + 'units = "s"\n', 9, "unknown key"),
        ("", 1, "give a [[span]] or a [[metric]]"),
        (METRIC + METRIC, 9, "prompt_tokens is read from 'a:tokens' already in [[metric]] 1 of 0.toml"),
    ],
)
def test_a_reading_that_cannot_be_right_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        rules(text)
    assert message in str(caught.value)
    assert caught.value.line == line


def test_two_profiles_may_not_read_the_same_series_twice() -> None:
    with pytest.raises(SourceError, match=r"1\.toml:3: prompt_tokens is read from 'a:tokens' already in \[\[metric\]\] 1 of 0\.toml"):
        rules(METRIC, METRIC)
    assert rules(METRIC + 'where = { x = "1" }\n', METRIC + 'where = { x = "2" }\n')


def test_counters_are_found_by_the_spellings_that_clients_and_collectors_make_of_them() -> None:
    assert [rule.metric for rule in rules(METRIC)] == ["a:tokens", "a_tokens", "a:tokens_total", "a_tokens_total"]
    gauge = METRIC.replace("prompt_tokens", "kv_used_tokens").replace('"counter"', '"gauge"')
    assert [rule.metric for rule in rules(gauge)] == ["a:tokens", "a_tokens"]
    assert [rule.metric for rule in rules(METRIC + 'reads = "sum"\n')] == ["a:tokens", "a_tokens"]


@pytest.mark.parametrize(
    ("quantity", "kind", "unit", "micro"),
    [
        ("gpu_energy_joules", "counter", "mJ", 1e3), ("gpu_energy_joules", "rate", "W", 1e6), ("gpu_energy_joules", "rate", "mW", 1e3),
        ("gpu_power_watts", "gauge", "W", 1e6), ("gpu_busy_ratio", "gauge", "percent", 1e4), ("gpu_busy_ratio", "gauge", "ratio", 1e6),
        ("busy_seconds", "counter", "ms", 1e3), ("busy_seconds", "counter", "us", 1.0), ("busy_seconds", "counter", "ns", 1e-3),
        ("busy_seconds", "counter", "min", 6e7), ("gpu_memory_used_bytes", "gauge", "MiB", 2**20 * 1e6),
        ("gpu_memory_used_bytes", "gauge", "MB", 1e12), ("nvlink_bytes", "rate", "MB/s", 1e12),
        ("nvlink_bytes", "rate", "GiB/s", 2**30 * 1e6),
    ],
)  # fmt: skip
def test_units_become_millionths_of_the_quantity_s_unit_trap_7(quantity: str, kind: str, unit: str, micro: float) -> None:
    text = METRIC.replace("prompt_tokens", quantity).replace('"counter"', f'"{kind}"').replace('"token"', f'"{unit}"')
    assert next(rule.micro_per_unit for rule in rules(text)) == pytest.approx(micro, rel=1e-12)


def test_packaged_rules_are_ranked_and_no_xid_is_read() -> None:
    found = load_configuration(None).metric_rules
    assert [rule.rank for rule in found] == list(range(len(found)))
    assert {rule.quantity for rule in found} <= set(QUANTITIES)
    assert not [rule for rule in found if "XID" in rule.metric]


def test_points_are_in_before_a_window_closes_and_a_missed_scrape_is_no_gap() -> None:
    assert AttributionSettings().grace_seconds * 10**9 > STALE_NS
    longest = next(part.le for part in ScrapeSettings.model_fields["interval_seconds"].metadata if hasattr(part, "le"))
    assert 2 * longest * 10**9 <= STALE_NS
