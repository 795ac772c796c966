"""Compares what the pipeline says with what the modelled cluster knows (CONTRACTS 5, replay truth). Pure but for reading the files.

Tokens and useful tokens must agree exactly. GPU money is conserved to the atom by construction; how it is divided is judged
against the cluster's own step times: each tenant within TOLERANCE.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

TOLERANCE = Fraction(10, 100)
TOKENS = ("input_tokens", "output_tokens", "useful")


@dataclass(frozen=True, slots=True)
class Truth:
    """Per tenant: requests by outcome, sums of tokens, GPU cost in atoms (exact step shares at the replica's rate)."""

    outcomes: Mapping[str, Mapping[str, int]]
    tokens: Mapping[str, Mapping[str, int]]
    gpu_atoms: Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the check. `exact`: the two must be equal; else within TOLERANCE."""

    tenant: str
    what: str
    truth: Fraction
    found: Fraction
    exact: bool

    @property
    def agrees(self) -> bool:
        if self.exact:
            return self.truth == self.found
        return abs(self.found - self.truth) <= TOLERANCE * abs(self.truth)

    @property
    def deviation(self) -> float:
        return float((self.found - self.truth) / self.truth) if self.truth else 0.0


def read_truth(directory: Path, atoms_per_ns: Mapping[str, Fraction]) -> Truth:
    """`atoms_per_ns`: what a replica costs per nanosecond. A replica that is not in it costs nothing."""
    outcomes: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    tokens: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(TOKENS, 0))
    tenant_of: dict[str, str] = {}
    for row in _lines(directory / "requests.jsonl"):
        tenant_of[row["trace_id"]] = row["tenant"]
        outcomes[row["tenant"]][row["outcome"]] += 1
        for name in TOKENS:
            tokens[row["tenant"]][name] += row[name] or 0
    gpu: dict[str, Fraction] = defaultdict(Fraction)
    for row in _lines(directory / "attempts.jsonl"):
        gpu[tenant_of[row["trace_id"]]] += Fraction(row["gpu_ns_exact"]) * atoms_per_ns.get(row["replica"], Fraction(0))
    return Truth(outcomes, tokens, gpu)


def compare(truth: Truth, report: Mapping[str, Any], busy_atoms: Mapping[str, int]) -> list[Comparison]:
    """`report`: tokenpath.report/1; `busy_atoms`: what the ledger books on each tenant's attempts, whoever pays for it."""
    found = {row["tenant"]: row for row in report["tenants"]}
    lines = []
    for tenant in sorted(truth.outcomes.keys() | found.keys()):
        shown = found.get(tenant, {"requests": {}, "tokens": {}})
        for outcome in sorted(truth.outcomes[tenant].keys() | {k for k, v in shown["requests"].items() if v} - {"total"}):
            lines.append(_line(tenant, f"requests {outcome}", truth.outcomes[tenant].get(outcome, 0), shown["requests"].get(outcome), True))
        for name, key in (("input_tokens", "input"), ("output_tokens", "output"), ("useful", "useful")):
            lines.append(_line(tenant, f"tokens {key}", truth.tokens[tenant][name], shown["tokens"].get(key), True))
        lines.append(_line(tenant, "GPU cost", truth.gpu_atoms.get(tenant, Fraction(0)), busy_atoms.get(tenant), False))
    return lines


def _line(tenant: str, what: str, truth: int | Fraction, found: int | None, exact: bool) -> Comparison:
    return Comparison(tenant, what, Fraction(truth), Fraction(found or 0), exact)


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
