"""Random spans of several traces that share ids, against tests/oracle/joining.py: tenants, copies of ids, circles, taken span ids."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipeline.store.client import Store
from tests.oracle.assembly import Request, Seen
from tests.oracle.joining import Joining, traces
from tests.sql.scenarios import World, assembled_world
from tests.sql.spans import MS, Row, gateway, span, stage, vllm_request
from tests.sql.test_assembly_oracle import said
from tests.sql.test_joining import PROFILE

WORLDS = 60  # of one assembly
STEP = 400  # ms; clocks may differ by 1000
FORMS = ("{}", "{}", "chatcmpl-{}", "cmpl-{}-0", "chatcmpl-{}-1a2b3c4d", "{}-7")
PRINCIPALS = ("platform",) * 8 + ("tenant/a",)
KINDS = ("gateway", "litellm", "litellm", "vllm", "vllm", "worker", "worker", "router", "client", "cache", "stage", "none")


def random_spans(dice: random.Random, world: str) -> Iterator[tuple[Seen, str]]:
    """Spans of up to five traces and the stack that writes each. Ids are few, so that they meet."""
    names = [f"{world}x{n}" for n in range(dice.choice([1, 1, 2, 4]))]
    stored: list[tuple[str, str]] = []
    for n in range(dice.randint(2, 12)):
        trace, id = f"{world}t{dice.randint(0, dice.choice([1, 4]))}", f"s{n}" if dice.random() < 0.9 else "s0"
        if (trace, id) in stored:
            continue
        inside = [known for in_trace, known in stored if in_trace == trace]
        parent = dice.choice([*inside, *inside, "", "", "ghost", f"s{dice.randint(0, 12)}"])
        stored.append((trace, id))
        start = dice.randint(0, 12) * STEP
        end = start + dice.choice([0, 1, 4, 10]) * STEP
        kind = dice.choice(KINDS)
        name = dice.choice(FORMS).format(dice.choice(names)) if dice.random() < 0.8 else ""
        key = f"{world}k" if kind == "worker" and dice.random() < 0.5 else ""
        seen: dict[str, Any] = {
            "id": id, "trace": trace, "parent": parent, "start": start * MS, "end": end * MS, "principal": dice.choice(PRINCIPALS),
            "failed": dice.random() < 0.1, "names": (name,) if name else (),
        }  # fmt: skip
        output, model = dice.choice([None, 1, 5, 7]), dice.choice(["", "", "m", "n"])
        if kind == "gateway":
            yield Seen(**seen, role="request", stage="gateway", tenant=dice.choice(["a", "b", ""]), status=200, model=model), kind
        elif kind == "cache":
            yield Seen(**seen, role="stage", stage="kv_cache"), kind
        elif kind in ("stage", "none"):
            yield (
                Seen(**seen | {"names": ()}, role="stage" if kind == "stage" else "none", stage="prefill" if kind == "stage" else ""),
                kind,
            )
        elif kind == "vllm":
            yield Seen(**seen, role="inference", layer="engine", output=output, sibling=name, worker="engine-a"), kind
        elif kind == "worker":
            worker = dice.choice(["w1", "w2"])
            yield Seen(**seen, role="inference", layer="engine", output=output, key=key, model=model, worker=worker), kind
        else:
            layer = {"litellm": "gateway", "router": "router", "client": "client"}[kind]
            yield Seen(**seen, role="inference", layer=layer, output=None if kind == "router" else output, model=model), kind


def row(one: Seen, kind: str) -> Row:
    trace, id, name, start, end = one.trace, one.id, "".join(one.names), one.start / MS, one.end / MS
    common: dict[str, Any] = {"parent": one.parent, "principal": one.principal, "failed": one.failed}
    usage: dict[str, Any] = {"output": "" if one.output is None else one.output, "input": "", "gen_ai__request__model": one.model}
    if kind == "gateway":
        facts: dict[str, Any] = {"tokenpath__request__id": name, "gen_ai__request__model": one.model, "http__response__status_code": 200}
        return gateway(trace, start, end, id=id, tenant=one.tenant, **facts, **common)
    if kind == "litellm":
        names: dict[str, Any] = {"gen_ai__response__id": name, "gen_ai__response__model": one.model}
        return span(trace, id, "chat m", start, end, scope="litellm", gen_ai__usage__output_tokens=usage["output"], **names, **common)
    if kind == "vllm":
        return vllm_request(trace, id, start, end, gen_ai__request__id=name, output=usage["output"], input="", **common)
    if kind == "client":
        facts = {"gen_ai__operation__name": "chat", "gen_ai__response__id": name, "gen_ai__usage__output_tokens": usage["output"]}
        return span(trace, id, "chat m", start, end, scope="app", gen_ai__request__model=one.model, **facts, **common)
    if kind == "stage":
        return stage(trace, id, "prefill", start, end, **common)
    if kind == "none":
        return span(trace, id, "work", start, end, scope="app", **common)
    resource = {"service.name": one.worker}
    worker: dict[str, Any] = {"rid": name, "room": one.key, "model": one.model, "out": usage["output"], "resource": resource}
    facts_of: dict[str, dict[str, Any]] = {
        "worker": worker,
        "router": {"request_id": name, "model": one.model},
        "cache": {"session_id": name},
    }
    span_name = {"worker": "worker", "router": "route request", "cache": "cache request"}[kind]
    return span(trace, id, span_name, start, end, scope="apart", **facts_of[kind], **common)


def expected(spans: list[Seen]) -> dict[str, tuple[dict[str, Request], set[str]]]:
    """Per trace: its requests, and which of them are flagged."""
    joining = Joining(spans)
    found = {}
    for name, trace in traces(joining.spans).items():
        flagged = {trace.root(one) for one in trace.spans.values() if one.role == "inference" and (name, one.id) in joining.ambiguous}
        found[name] = (trace.requests(), {root for root in flagged if root})
    return found


def told(world: World, trace: str) -> tuple[dict[str, Request], set[str]]:
    flagged = {row["root_span_id"].decode().rstrip(".") for row in world[trace].requests if "ambiguous_id" in row["flags"]}
    return said(world, trace), flagged


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("config")
    (directory / "profiles").mkdir()
    (directory / "profiles" / "apart.toml").write_text(PROFILE)
    return directory


@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_random_ids_join_as_the_definition_says(engine: Store, directory: Path, seed: int) -> None:
    dice = random.Random(seed)
    worlds = [list(random_spans(dice, f"w{n}")) for n in range(WORLDS)]
    rows = [row(*one) for spans in worlds for one in spans]
    dice.shuffle(rows)
    world = assembled_world(engine, rows, directory)
    for spans in worlds:
        for trace, wanted in expected([one for one, _ in spans]).items():
            assert told(world, trace) == wanted, [f"{kind}: {one}" for one, kind in spans]


def test_neither_order_nor_copies_nor_chunks_change_anything(engine: Store, directory: Path) -> None:
    dice = random.Random(5)
    rows = [row(*one) for n in range(WORLDS) for one in random_spans(dice, f"w{n}")]
    first = assembled_world(engine, rows, directory)
    again = [*rows, *dice.sample(rows, len(rows) // 4)]
    dice.shuffle(again)
    second = assembled_world(engine, again, directory, spans_per_chunk=len(rows) // 3)
    assert (second.requests, second.attempts) == (first.requests, first.attempts)
    assert any("ambiguous_id" in row["flags"] for row in first.requests)
