from pipeline.migrate import migrate, migrations
from pipeline.store import Store


def test_every_migration_is_applied_once(engine: Store) -> None:
    assert migrate(engine) == []
    names = {row[0] for row in engine.query("SELECT name FROM migrations FINAL").rows}
    assert names == {migration.name for migration in migrations()}
