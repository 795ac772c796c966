"""Hand-made spans as rows of `spans`. Ids are readable: a trace is at most 16 letters, a span at most 8; times are ms after 10:00."""

from collections.abc import Mapping
from typing import Any

from pipeline.store.client import Store

START = 1_796_032_800_000_000_000  # 2026-11-30T10:00:00Z
MS = 1_000_000
WINDOW = 900_000 * MS
ENGINE = {"service.name": "engine-a"}

Row = dict[str, Any]


def span(
    trace: str,
    id: str,
    name: str,
    start: float,
    end: float | None,
    parent: str = "",
    *,
    scope: str = "tokenpath",
    principal: str = "platform",
    resource: Mapping[str, str] | None = None,
    failed: bool = False,
    received: int = 0,
    **more: Any,
) -> Row:
    """`more`: columns of spans, or attributes with `__` for `.`; values are stored as the ingest view stores them."""
    columns: dict[str, Any] = {key: more.pop(key) for key in ("trace_state", "defects", "started_ns") if key in more}
    started_ns = columns.pop("started_ns", START + round(start * MS))
    return {
        "start_hour": started_ns // 3_600_000_000_000 * 3600,
        "trace_id": trace.ljust(16, "."),
        "span_id": id.ljust(8, "."),
        "parent_span_id": parent.ljust(8, ".") if parent else "\0" * 8,
        "principal": principal,
        "name": name,
        "status_code": "error" if failed else "unset",
        "started_at": f"{started_ns // 10**9}.{started_ns % 10**9:09}",
        "duration_ns": None if end is None else round(end * MS) - round(start * MS),
        "resource": dict(resource or {}),
        "attributes": {key.replace("__", "."): _text(value) for key, value in more.items()},
        "scope_name": scope,
        "received_ns": START + received,
        **columns,
    }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def stage(trace: str, id: str, name: str, start: float, end: float | None, parent: str, **more: Any) -> Row:
    """One of Tokenpath's own stage spans."""
    return span(trace, id, name, start, end, parent, **{"tokenpath__stage": name, **more})


def gateway(trace: str, start: float, end: float | None, *, id: str = "gw", parent: str = "", tenant: str = "acme", **more: Any) -> Row:
    facts = {"tokenpath__tenant__id": tenant, "http__response__status_code": 200, "gen_ai__request__model": "m"}
    facts = {key: value for key, value in facts.items() if value != ""}
    return stage(trace, id, "gateway", start, end, parent, **{**facts, **more})


def chat(
    trace: str, id: str, start: float, end: float | None, parent: str = "gw", *, input: Any = 100, output: Any = 20, **more: Any
) -> Row:
    """An inference span of Tokenpath's own kind, written by the engine."""
    usage = {"gen_ai__usage__input_tokens": input, "gen_ai__usage__output_tokens": output}
    facts = {"gen_ai__operation__name": "chat", "tokenpath__attempt__number": 1, "gen_ai__request__model": "m", **usage}
    facts = {key: value for key, value in facts.items() if value is not None}
    return span(trace, id, "chat m", start, end, parent, **{"resource": ENGINE, **facts, **more})


def client_chat(trace: str, id: str, start: float, end: float, parent: str = "", *, input: Any = 100, output: Any = 20, **more: Any) -> Row:
    """An inference span of an application's own instrumentation."""
    return span(
        trace, id, "chat m", start, end, parent, scope="app", gen_ai__operation__name="chat", gen_ai__request__model="m",
        **{"gen_ai__usage__input_tokens": input, "gen_ai__usage__output_tokens": output, **more},
    )  # fmt: skip


def litellm_server(trace: str, start: float, end: float, *, id: str = "gw", parent: str = "", status: int = 200, **more: Any) -> Row:
    return span(
        trace, id, "POST /v1/chat/completions", start, end, parent, scope="opentelemetry.instrumentation.fastapi",
        **{"litellm__api_key__hash": "k", "litellm__team__id": "team-red", "http__status_code": status, **more},
    )  # fmt: skip


def litellm_route(trace: str, id: str, start: float, end: float, parent: str = "gw", **more: Any) -> Row:
    return span(trace, id, "route m", start, end, parent, scope="litellm", gen_ai__request__model="m", **more)


def litellm_chat(
    trace: str, id: str, start: float, end: float, parent: str = "gw", *, input: Any = 100, output: Any = 20, **more: Any
) -> Row:
    return span(
        trace, id, "chat m", start, end, parent, scope="litellm", gen_ai__request__model="m",
        **{"gen_ai__usage__input_tokens": input, "gen_ai__usage__output_tokens": output, **more},
    )  # fmt: skip


def vllm_request(
    trace: str, id: str, start: float, end: float, parent: str = "", *, input: Any = 100, output: Any = 20, **more: Any
) -> Row:
    return span(
        trace, id, "llm_request", start, end, parent, scope="vllm.tracing.otel",
        **{"resource": ENGINE, "gen_ai__usage__prompt_tokens": input, "gen_ai__usage__completion_tokens": output, **more},
    )  # fmt: skip


def stored(store: Store, rows: list[Row]) -> None:
    store.insert_rows("spans", rows)
