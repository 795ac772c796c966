"""What really happened, written beside the spans (CONTRACTS 5): `requests.jsonl`, `attempts.jsonl`, `replicas.jsonl`.

Tokens are what the engine reported for the request (null where it reported nothing: 5xx, left in the queue, rejected). `useful` is the
number of useful tokens (policy useful-v1). `gpu_ns_exact` is "num/den" with den = 2^20: over a replica's attempts it sums to its busy
time exactly, and each step's part is within 2^-20 ns of the closed form.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from collectors.workload.options import ReplaySlo
from collectors.workload.replica import Replica
from collectors.workload.roofline import TICKS_PER_NS
from collectors.workload.served import Served
from collectors.workload.spans import Ids
from schemas.stages import Outcome


def slo_for(slos: Sequence[ReplaySlo], tenant: str, model: str) -> ReplaySlo | None:
    """The most specific row: tenant and model, tenant, model, all."""
    for wanted in ((tenant, model), (tenant, ""), ("", model), ("", "")):
        for slo in slos:
            if (slo.tenant, slo.model) == wanted:
                return slo
    return None


def outcome_of(served: Served, slo: ReplaySlo | None) -> Outcome:
    """The first that fits (CONTRACTS 2.3)."""
    if served.plan.rejected_status is not None:
        return Outcome.REJECTED
    if served.blocked:
        return Outcome.BLOCKED
    if served.attempts[-1].failed:
        return Outcome.FAILED
    if served.left_ns is not None:
        return Outcome.ABORTED
    return Outcome.USEFUL if slo is None or _in_time(served, slo) else Outcome.LATE


def _in_time(served: Served, slo: ReplaySlo) -> bool:
    sequence, stream_ns = served.attempts[-1].sequence, served.stream_ns
    if sequence is None or stream_ns is None or sequence.first_token_ns is None or sequence.last_token_ns is None:
        raise AssertionError("a finished request without tokens")
    tpot_ns = (sequence.last_token_ns - sequence.first_token_ns) // (sequence.generated - 1) if sequence.generated > 1 else None
    measured = (
        (slo.ttft_ms, stream_ns[0] - served.arrival_ns),
        (slo.tpot_ms, tpot_ns),
        (slo.e2e_ms, served.ended_ns - served.arrival_ns),
    )
    return all(limit is None or value is None or value <= limit * 1_000_000 for limit, value in measured)


def request_row(served: Served, ids: Ids, outcome: Outcome) -> dict[str, Any]:
    usage = next((usage for attempt in reversed(served.attempts) if (usage := attempt.usage)), None)
    read, cached, written = usage or (None, None, None)
    return {
        "trace_id": f"{ids.trace:032x}",
        "tenant": served.plan.tenant,
        "model": served.plan.model,
        "outcome": outcome.value,
        "input_tokens": read,
        "cached_tokens": cached,
        "output_tokens": written,
        "delivered_tokens": served.delivered_tokens,
        "useful": served.delivered_tokens if outcome is Outcome.USEFUL else 0,
        "attempts": len(served.attempts),
    }


def attempt_rows(served: Served, ids: Ids) -> Iterable[dict[str, Any]]:
    for attempt, span_id in zip(served.attempts, ids.attempts, strict=True):
        s = attempt.sequence
        yield {
            "trace_id": f"{ids.trace:032x}",
            "span_id": f"{span_id:016x}",
            "replica": attempt.replica,
            "first_scheduled_ns": s and s.first_scheduled_ns,
            "first_token_ns": s and s.first_token_ns,
            "last_token_ns": s and s.last_token_ns,
            "gpu_ns_exact": f"{s.gpu_ticks if s else 0}/{TICKS_PER_NS}",
        }


def replica_rows(replicas: Iterable[Replica], from_ns: int, to_ns: int, window_ns: int) -> Iterable[dict[str, Any]]:
    """One row per replica and whole window between the two times."""
    for replica in replicas:
        for window_from_ns in range(from_ns - from_ns % window_ns, to_ns, window_ns):
            busy_ns = replica.busy_ns.get(window_from_ns, 0)
            yield {"replica": replica.id, "window_from": window_from_ns // 10**9, "busy_ns": busy_ns, "idle_ns": window_ns - busy_ns}


class TruthWriter:
    """Writes the three files into a directory; with None it writes nothing."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._files: dict[str, TextIO] = {}

    def __enter__(self) -> "TruthWriter":
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True)
            for name in ("requests", "attempts", "replicas"):
                self._files[name] = (self._directory / f"{name}.jsonl").open("w", encoding="utf-8")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for file in self._files.values():
            file.close()

    def write(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        if file := self._files.get(name):
            file.writelines(json.dumps(row) + "\n" for row in rows)
