"""The demo's check can fail: each kind of disagreement is seen."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipeline.demo.check import Truth, compare, read_truth

REQUESTS = [
    {"trace_id": "a", "tenant": "acme", "outcome": "useful", "input_tokens": 10, "output_tokens": 5, "useful": 5},
    {"trace_id": "b", "tenant": "acme", "outcome": "rejected", "input_tokens": None, "output_tokens": None, "useful": 0},
]
ATTEMPTS = [{"trace_id": "a", "replica": "r", "gpu_ns_exact": "3/2"}]
REPORT: dict[str, Any] = {
    "tenants": [{"tenant": "acme", "requests": {"total": 2, "useful": 1, "rejected": 1}, "tokens": {"input": 10, "output": 5, "useful": 5}}]
}


@pytest.fixture
def truth(tmp_path: Path) -> Truth:
    for name, rows in (("requests", REQUESTS), ("attempts", ATTEMPTS)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_truth(tmp_path, {"r": Fraction(1000)})


def test_equal_figures_agree(truth: Truth) -> None:
    assert truth.gpu_atoms == {"acme": 1500}
    assert all(line.agrees for line in compare(truth, REPORT, {"acme": 1500}))


@pytest.mark.parametrize(("atoms", "agrees"), [(1350, True), (1349, False), (1650, True), (1651, False), (0, False)])
def test_cost_agrees_within_ten_percent(truth: Truth, atoms: int, agrees: bool) -> None:
    (line,) = [line for line in compare(truth, REPORT, {"acme": atoms}) if line.what == "GPU cost"]
    assert line.agrees is agrees


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"requests": {"total": 2, "useful": 2}}, {"requests useful", "requests rejected"}),
        ({"tokens": {"input": 11, "output": 5, "useful": 5}}, {"tokens input"}),
        ({"tokens": {"input": 10, "output": 5, "useful": None}}, {"tokens useful"}),
    ],
)
def test_a_count_that_differs_by_one_is_seen(truth: Truth, changed: dict[str, Any], what: set[str]) -> None:
    report = {"tenants": [{**REPORT["tenants"][0], **changed}]}
    assert {line.what for line in compare(truth, report, {"acme": 1500}) if not line.agrees} == what


def test_a_tenant_that_only_one_side_knows_is_seen(truth: Truth) -> None:
    assert {line.tenant for line in compare(truth, {"tenants": []}, {}) if not line.agrees} == {"acme"}
    stranger = {"tenants": [*REPORT["tenants"], {**REPORT["tenants"][0], "tenant": "stranger"}]}
    assert {line.tenant for line in compare(truth, stranger, {"acme": 1500}) if not line.agrees} == {"stranger"}
