import threading
from collections.abc import Iterator

import pytest

from pipeline.errors import ConfigurationError
from pipeline.store.client import DATABASE, Store
from pipeline.store.migrate import Migration, migrate, migrations

ELSEWHERE = "migrated_elsewhere"


@pytest.fixture
def fresh(engine: Store) -> Iterator[list[Store]]:
    """Two handles on one empty database."""
    handles = [engine.another() for _ in range(2)]
    engine.command(f"CREATE DATABASE {ELSEWHERE}")
    for handle in handles:
        handle.command(f"USE {ELSEWHERE}")
    yield handles
    for handle in handles:
        handle.close()
    engine.command(f"DROP DATABASE {ELSEWHERE}")


def test_every_migration_is_applied_once(engine: Store) -> None:
    assert migrate(engine) == []
    names = {row[0] for row in engine.query("SELECT name FROM migrations FINAL").rows}
    assert names == {migration.name for migration in migrations()}


def test_two_migrators_at_once_end_with_everything_applied(fresh: list[Store]) -> None:
    start = threading.Barrier(2)
    errors: list[BaseException] = []

    def run(store: Store) -> None:
        start.wait()
        try:
            migrate(store)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(handle,)) for handle in fresh]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert migrate(fresh[0]) == []
    names = "SELECT name FROM system.tables WHERE database = {database:String} ORDER BY name"
    assert fresh[0].query(names, {"database": ELSEWHERE}).rows == fresh[0].query(names, {"database": DATABASE}).rows


def test_a_migrator_that_was_killed_between_statement_and_record_is_finished_by_the_next(fresh: list[Store]) -> None:
    first, second = (
        Migration("0001_a", "CREATE TABLE IF NOT EXISTS a (x UInt8) ENGINE = Memory"),
        Migration("0002_b", "CREATE TABLE IF NOT EXISTS b (x UInt8) ENGINE = Memory"),
    )
    migrate(fresh[0], [first])
    fresh[0].command(second.sql)
    assert migrate(fresh[0], [first, second]) == ["0002_b"]


def test_an_applied_file_that_was_edited_is_refused(fresh: list[Store]) -> None:
    migrate(fresh[0], [Migration("0001_a", "CREATE TABLE IF NOT EXISTS a (x UInt8) ENGINE = Memory")])
    with pytest.raises(ConfigurationError, match="0001_a"):
        migrate(fresh[0], [Migration("0001_a", "CREATE TABLE IF NOT EXISTS a (y UInt8) ENGINE = Memory")])
