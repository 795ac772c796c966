"""Spans through the real view, assembly, money and rollups: late, early or twice, the same figures come out."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from collectors.workload.options import ReplayOptions
from collectors.workload.replay import replay
from pipeline.attribution.windows import Attributor
from pipeline.configuration.versions import load_configuration, store_configuration
from pipeline.store.client import Store
from schemas.settings import AttributionSettings
from tests.conftest import empty
from tests.ingest import ingest
from tests.sql.gpu_facts import S, T
from tests.sql.test_attribution_job import Clock, seen

Q = 900 * S
SETTINGS = AttributionSettings()
NOW = T + 12 * Q


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An example of 80 requests that crosses windows, with its truth."""
    folder = tmp_path_factory.mktemp("replayed")
    target = f"file:{folder}/spans"
    options = ReplayOptions(
        start_ns=T + Q // 2, to=(target,), truth_dir=folder / "truth", example_requests=80, via="bytes", batch_spans=200
    )
    replay(options, lambda done, total: None)
    return folder


def bodies(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted((folder / "spans").glob("*.binpb"))]


def configured(store: Store) -> str:
    return store_configuration(store, load_configuration(None, environment={}), datetime(2026, 11, 2, tzinfo=UTC))


def attribute(store: Store, config_hash: str, now_ns: int) -> list[str]:
    return [result.state for result in Attributor(store, SETTINGS, config_hash, Clock(now_ns)).step() if result.kind == "closed"]


def closed(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """What readers see of the windows that were closed at NOW."""
    return {table: [row for row in rows if row[0].timestamp() * S < NOW - Q] for table, rows in seen(store).items()}


def test_late_spans_give_what_they_had_given_in_time(store: Store, replayed: Path) -> None:
    config_hash, everything = configured(store), bodies(replayed)
    ingest(store, everything, received_ns=NOW)
    assert set(attribute(store, config_hash, NOW)) == {"published"}
    wanted = closed(store)
    assert len(wanted["requests"]) == 80 and len({row[0] for row in wanted["requests"]}) > 1

    empty(store)
    configured(store)
    ingest(store, [body for number, body in enumerate(everything) if number % 3 != 1], received_ns=NOW)
    attribute(store, config_hash, NOW)
    assert closed(store) != wanted
    ingest(store, everything[1::3], received_ns=NOW + 60 * S, first_offset=len(everything))
    assert attribute(store, config_hash, NOW + 61 * S) == []  # at most every five minutes
    assert "published" in attribute(store, config_hash, NOW + 400 * S)
    assert closed(store) == wanted


def test_busy_time_is_that_of_the_engines_and_spans_that_come_again_change_nothing(store: Store, replayed: Path) -> None:
    config_hash, everything = configured(store), bodies(replayed)
    ingest(store, everything, received_ns=NOW)
    attribute(store, config_hash, NOW)
    wanted = closed(store)
    told = [json.loads(line) for line in (replayed / "truth" / "replicas.jsonl").read_text().splitlines()]
    pools = {(row[0].timestamp(), row[2]): row[7] for row in wanted["pools"]}
    assert {row["replica"] for row in told} == {replica for _, replica in pools}
    for row in told:
        busy_ns = pools[row["window_from"], row["replica"]]
        assert abs(busy_ns - row["busy_ns"]) <= row["busy_ns"] // 50 + S, row

    ingest(store, everything, received_ns=NOW + 60 * S, first_offset=len(everything))
    assert set(attribute(store, config_hash, NOW + 400 * S)) == {"unchanged", "published"}  # published: the window that was open before
    assert closed(store) == wanted
    assert attribute(store, config_hash, NOW + 800 * S) == []
