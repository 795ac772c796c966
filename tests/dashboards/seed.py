"""Published figures of two windows, small enough to add up by hand. One superseded run and one unpublished run must never show."""

from datetime import UTC, datetime

from pipeline.store.client import Store

START = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)
FROM_S = int(START.timestamp())
TO_S = FROM_S + 1800
MICRO = 1_000_000  # atoms of 1e-6 USD
USD = 1_000_000_000_000


def seed(store: Store) -> None:
    """acme spent 3 USD (2 useful, 1 late), globex 1 USD (useful), 4 USD stood idle; 8 USD in all, in two windows of 15 minutes."""
    for window, run, state in ((0, 1, "published"), (0, 2, "published"), (900, 2, "published"), (900, 3, "started")):
        store.insert_rows("runs", [_run(window, run, state)])
    store.insert_rows("tenant_windows", [_tenant(0, 1, "acme", "m-a", 999 * USD, {"late": 999 * USD}, 1)])
    store.insert_rows("tenant_windows", [_tenant(900, 3, "acme", "m-a", 777 * USD, {"late": 777 * USD}, 1)])
    store.insert_rows(
        "tenant_windows",
        [
            _tenant(0, 2, "acme", "m-a", 3 * USD, {"useful": 2 * USD, "late": USD}, 1_500_000),
            _tenant(900, 2, "globex", "m-b", USD, {"useful": USD}, 500_000),
        ],
    )
    store.insert_rows(
        "unallocated_windows",
        [{"window_from": _at(w), "run_id": 2, "pool": "gpu", "class": "idle", "busy_ns": 0, "atoms": str(2 * USD)} for w in (0, 900)],
    )
    store.insert_rows(
        "leak_windows",
        [
            _leak(0, 1, "acme", "m-a", "late", "decode", 999 * USD),
            _leak(0, 2, "acme", "m-a", "useful", "other", 2 * USD),
            _leak(0, 2, "acme", "m-a", "late", "schedule", USD),
            _leak(900, 2, "globex", "m-b", "useful", "other", USD),
            *(_leak(window, 2, "", "", "idle", "schedule", 2 * USD) for window in (0, 900)),
        ],
    )
    store.insert_rows("blames", [_blame(run, cause) for run in (1, 2) for cause in ("slo", "tail")])
    for tenant, model, window in (("acme", "m-a", 0), ("globex", "m-b", 900)):
        for measure in ("ttft", "tpot", "e2e", "queue", "stage:prefill", "stage:other"):
            store.command(
                "INSERT INTO latency_windows SELECT toDateTime({w:UInt32}, 'UTC'), 2, {t:String}, {m:String}, {x:String}, count(),"
                " 50000000, 95000000, 99000000, 100000000, sum(v), ['span'],"
                " groupArray(toUInt16(ceil(log(v) / log(1.01)))), groupArray(toUInt32(1))"
                " FROM (SELECT toUInt64((number + 1) * 1000000) AS v FROM numbers(100))",
                {"w": FROM_S + window, "t": tenant, "m": model, "x": measure},
            )
    store.insert_rows(
        "requests",
        [
            {
                "window_from": _at(0), "run_id": run, "request_id": f"r{run}", "tenant": "acme", "model": "m-a", "outcome": "late",
                "trace_id": "0123456789abcdef", "root_span_id": "01234567", "started_at": "2026-11-01 10:00:01.000000000",
                "e2e_ns": 5_000_000_000, "ttft_ns": 2_000_000_000, "stage_ns": {"prefill": 1_500_000_000, "other": 3_500_000_000},
            }
            for run in (1, 2)
        ],
    )  # fmt: skip
    store.insert_rows(
        "rated_windows",
        [
            {
                "window_from": _at(0), "run_id": 2, "tenant": "acme", "model": "m-a", "bucket": "output_text", "sku": "s",
                "currency": "USD", "metered_tokens": 10, "billable_tokens": 10, "usd_per_million_tokens": "2.40", "amount": "4.5",
            }
        ],
    )  # fmt: skip


def _at(offset_s: int) -> str:
    return datetime.fromtimestamp(FROM_S + offset_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _run(window: int, run: int, state: str) -> dict[str, object]:
    return {
        "run_id": run, "window_from": _at(window), "window_to": _at(window + 900), "state": state, "kind": "closed", "method": "m",
        "useful_policy": "useful-v1", "config_hash": "h", "pools_atoms": str(4 * USD), "ledger_atoms": str(4 * USD),
        "started_at": "2026-11-01 11:00:00", "recorded_at": f"2026-11-01 11:00:0{run}",
    }  # fmt: skip


def _tenant(window: int, run: int, tenant: str, model: str, atoms: int, classes: dict[str, int], useful: int) -> dict[str, object]:
    return {
        "window_from": _at(window), "run_id": run, "tenant": tenant, "model": model, "requests": 100, "useful_tokens": useful,
        "delivered_tokens": useful, "atoms": str(atoms), "class_atoms": {name: str(value) for name, value in classes.items()},
        "fully_loaded_atoms": str(atoms * 2), "saved_gross_atoms": str(atoms // 2), "hit_base_tokens": 100, "hit_tokens": 40,
        "slo_met": 90, "slo_of": 100,
    }  # fmt: skip


def _leak(window: int, run: int, tenant: str, model: str, name: str, stage: str, atoms: int) -> dict[str, object]:
    return {
        "window_from": _at(window), "run_id": run, "pool": "gpu", "resource": "r0", "tenant": tenant, "model": model, "class": name,
        "stage": stage, "atoms": str(atoms),
    }  # fmt: skip


def _blame(run: int, cause: str) -> dict[str, object]:
    return {
        "window_from": _at(0), "run_id": run, "request_id": f"r{run}", "tenant": "acme", "model": "m-a", "cause": cause, "measure": "ttft",
        "stage": "schedule", "excess_ns": 1_000_000_000, "compared": 2,
    }  # fmt: skip
