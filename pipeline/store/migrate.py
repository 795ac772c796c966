"""Numbered SQL files, forward only. Each is recorded with its checksum; an applied file that changed is refused."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from pipeline.errors import ConfigurationError
from pipeline.store.client import Store


@dataclass(frozen=True, slots=True)
class Migration:
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """All files of schemas/clickhouse in the order of their numbers."""
    folder = files("schemas") / "clickhouse"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [Migration(name.removesuffix(".sql"), (folder / name).read_text(encoding="utf-8").strip()) for name in names]


def migrate(store: Store, wanted: Sequence[Migration] | None = None) -> list[str]:
    """Applies what is missing and returns its names. Two migrators at once are safe: every statement is `IF NOT EXISTS`."""
    store.command(
        "CREATE TABLE IF NOT EXISTS migrations (name String, checksum String, applied_at DateTime64(6, 'UTC'))"
        " ENGINE = ReplacingMergeTree ORDER BY name"
    )
    todo = pending(store, migrations() if wanted is None else wanted)
    for migration in todo:
        store.command(migration.sql)
        store.command(
            "INSERT INTO migrations SELECT {name:String}, {checksum:String}, now64(6)",
            {"name": migration.name, "checksum": migration.checksum},
        )
    return [migration.name for migration in todo]


def pending(store: Store, wanted: Sequence[Migration]) -> list[Migration]:
    """Those not applied yet. Reads only. Raises ConfigurationError when an applied file was edited."""
    applied = dict(store.query("SELECT name, checksum FROM migrations FINAL").rows)
    for migration in wanted:
        if applied.get(migration.name, migration.checksum) != migration.checksum:
            raise ConfigurationError(
                f"schemas/clickhouse/{migration.name}.sql was changed after it had been applied to this store;"
                " undo the edit and put the change into a new file with the next number"
            )
    return [migration for migration in wanted if migration.name not in applied]


def missing(store: Store) -> list[str]:
    """Names of what `migrate` would apply. Changes nothing."""
    if not store.query("SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = 'migrations'").scalar():
        return [migration.name for migration in migrations()]
    return [migration.name for migration in pending(store, migrations())]
