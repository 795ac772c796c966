"""Random traces against tests/oracle/assembly.py: circles, absent parents, several principals and layers, equal times."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipeline.store.client import Store
from tests.oracle.assembly import Attempt, Request, Seen, Trace
from tests.sql.scenarios import World, assembled_world
from tests.sql.spans import MS, Row, chat, client_chat, gateway, litellm_chat, span, stage, vllm_request

TRACES = 150  # of one assembly
KINDS = ("gateway", "chat", "litellm", "vllm") * 2 + ("stage",) * 3 + ("client", "none")
STAGES = ("auth", "schedule", "prefill", "decode", "stream")
PRINCIPALS = ("platform",) * 6 + ("tenant/a", "tenant/b")


def random_spans(dice: random.Random) -> Iterator[tuple[Seen, str]]:
    """Spans of one trace and the stack that writes each."""
    ids = [f"s{n}" for n in range(dice.randint(1, 12))]
    dice.shuffle(ids)
    tidy = dice.random() < 0.5  # parents come before their children
    for n, id in enumerate(ids):
        parent = dice.choice([*(ids[:n] if tidy else ids), *ids[:n], "", "ghost"])
        start, principal, failed = dice.randint(0, 20), dice.choice(PRINCIPALS), dice.random() < 0.2
        end = start + dice.choice([0, 1, dice.randint(0, 20)])
        kind = dice.choice(
            ["gateway", "gateway", "chat", "chat", "litellm", "litellm", "client", "vllm", "vllm", "stage", "stage", "stage", "none"]
        )
        seen: dict[str, Any] = {"id": id, "parent": parent, "start": start * MS, "end": end * MS, "principal": principal, "failed": failed}
        output = dice.choice([None, 0, 1, 5, 7])
        if kind == "gateway":
            status = dice.choice([None, 200, 200, 429, 499, 500])
            tenant, gone = dice.choice(["a", "b", ""]), dice.random() < 0.15
            yield Seen(**seen, role="request", stage="gateway", tenant=tenant, status=status, disconnected=gone), kind
        elif kind == "stage":
            yield Seen(**seen, role="stage", stage=dice.choice(STAGES)), kind
        elif kind == "none":
            yield Seen(**seen), kind
        else:
            layer = {"chat": "engine", "vllm": "engine", "litellm": "gateway", "client": "client"}[kind]
            tenant = dice.choice(["a", "b", ""]) if kind == "litellm" else ""
            sibling = dice.choice(["x", "y", ""]) if kind == "vllm" else ""
            yield Seen(**seen, role="inference", layer=layer, output=output, tenant=tenant, sibling=sibling), kind


def row(trace: str, one: Seen, kind: str) -> Row:
    start, end = one.start / MS, one.end / MS
    common: dict[str, Any] = {"principal": one.principal, "failed": one.failed}
    if kind == "gateway":
        facts: dict[str, Any] = {"http__response__status_code": one.status or "", "tokenpath__client__disconnected": one.disconnected}
        return gateway(trace, start, end, id=one.id, parent=one.parent, tenant=one.tenant, **facts, **common)
    if kind == "stage":
        return stage(trace, one.id, one.stage, start, end, one.parent, **common)
    if kind == "none":
        return span(trace, one.id, "work", start, end, one.parent, scope="app", **common)
    usage: dict[str, Any] = {"output": "" if one.output is None else one.output, "parent": one.parent, **common}
    if kind == "litellm":
        return litellm_chat(trace, one.id, start, end, litellm__team__id=one.tenant, **usage)
    if kind == "vllm":
        return vllm_request(trace, one.id, start, end, gen_ai__request__id=one.sibling, **usage)
    return (chat if kind == "chat" else client_chat)(trace, one.id, start, end, **usage)


def said(world: World, trace: str) -> dict[str, Request]:
    """What the SQL says, in the oracle's words."""
    found = world[trace]
    return {
        request["root_span_id"].decode().rstrip("."): Request(
            request["tenant"],
            request["outcome"],
            "foreign" in request["flags"],
            request["e2e_ns"],
            request["stage_ns"],
            [
                Attempt(span_of(attempt["attempt_id"]), attempt["outcome"], attempt["output_tokens"])
                for attempt in found.attempts
                if attempt["request_id"] == request["request_id"]
            ],
        )
        for request in found.requests
    }


def span_of(id: str) -> str:
    return bytes.fromhex(id.split("-")[1]).decode().rstrip(".")


def expected(spans: list[Seen]) -> dict[str, Request]:
    return Trace({one.id: one for one in spans}).requests()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config")


def random_traces(dice: random.Random) -> dict[str, list[tuple[Seen, str]]]:
    return {f"t{n}": list(random_spans(dice)) for n in range(TRACES)}


def rows_of(traces: dict[str, list[tuple[Seen, str]]]) -> list[Row]:
    return [row(trace, one, kind) for trace, spans in traces.items() for one, kind in spans]


# No shrinking: a failure names its trace, and that is small.
@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_random_traces_are_assembled_as_the_definition_says(engine: Store, directory: Path, seed: int) -> None:
    traces = random_traces(random.Random(seed))
    world = assembled_world(engine, rows_of(traces), directory)
    for trace, spans in traces.items():
        assert said(world, trace) == expected([one for one, _ in spans]), [f"{kind}: {one}" for one, kind in spans]


def test_neither_the_order_in_which_spans_are_stored_nor_working_in_chunks_changes_anything(engine: Store, directory: Path) -> None:
    dice = random.Random(11)
    rows = rows_of(random_traces(dice))
    first = assembled_world(engine, rows, directory)
    dice.shuffle(rows)
    second = assembled_world(engine, rows, directory, spans_per_chunk=len(rows) // 3)
    assert (second.requests, second.attempts) == (first.requests, first.attempts)
