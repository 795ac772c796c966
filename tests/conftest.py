"""Shared fixtures. The embedded engine is the real ClickHouse; one engine per test process, tables emptied between tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.store.client import Store, open_store
from pipeline.store.migrate import migrate
from schemas.settings import StoreSettings
from tests.kafka_broker import kafka_broker

__all__ = ["kafka_broker"]

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One embedded engine for the whole test process, migrated."""
    here = Path.cwd()
    store = open_store(StoreSettings(url=f"chdb:{tmp_path_factory.mktemp('engine')}"))
    migrate(store)
    yield store
    store.close()
    os.chdir(here)


@pytest.fixture
def store(engine: Store) -> Iterator[Store]:
    """The migrated store with every table empty."""
    empty(engine)
    yield engine


def empty(store: Store) -> None:
    tables = store.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase()"
        " AND engine LIKE '%MergeTree' AND name != 'migrations' AND total_rows > 0"
    )
    for (name,) in tables.rows:
        store.command(f"TRUNCATE TABLE `{name}`")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Public traces and captures that users do not have."""
    data = SHARED / "data"
    if not data.is_dir():
        pytest.skip("the public traces of ../shared/data are not here")
    return data
