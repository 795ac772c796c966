"""The file of the SQLite log: how it is opened, its format, and SQLite's errors in the log's words.

WAL with synchronous=FULL: what was acknowledged has been fsynced, so it survives `kill -9` and, where the disk keeps
its word, a power cut (synchronous=NORMAL would survive the kill too, but lose the last seconds in a power cut).
The writer shares one transaction among all that wait, so FULL costs about a fifth of NORMAL's speed.
"""

import sqlite3
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.statements import statement
from schemas.log import LogFull, LogUnavailable

PAGE_BYTES = 16_384  # a body of 48 KB is 3 pages, so deleting it walks a short chain
BUSY_SECONDS = 5.0
WAL_BYTES_KEPT = 67_108_864  # a WAL that grew larger is cut back to this
APPLICATION_ID = 0x544F4B50  # "TOKP"
FORMAT_VERSION = 1


def sql(name: str) -> str:
    return statement("pipeline.log.sql", name)


def connect(path: Path, max_file_bytes: int | None = None) -> sqlite3.Connection:
    """A connection to a log of our format, made if missing. Raises LogUnavailable or ConfigurationError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=32)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")  # the writer does it when nobody waits
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")
            connection.execute("PRAGMA secure_delete = OFF")  # on by default on some systems: trimming would write every page
            if max_file_bytes is not None:
                connection.execute(f"PRAGMA max_page_count = {max_file_bytes // PAGE_BYTES}")
            _ensure_format(path, connection)
        except BaseException:
            connection.close()
            raise
    except (OSError, sqlite3.Error) as error:
        raise as_log_error(path, error) from error
    return connection


def _ensure_format(path: Path, connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        _create(path, connection)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT_VERSION:
        raise ConfigurationError(f"{path} has log format {version}, this version reads {FORMAT_VERSION}; name another file in [log] url")


def _create(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,):
            return  # another process was quicker
        if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
            raise ConfigurationError(f"{path} is an SQLite database of another program; name another file in [log] url")
        connection.execute(sql("create_records"))
        connection.execute(sql("create_commits"))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        connection.execute("COMMIT")
    finally:
        roll_back(connection)


def roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def is_full(error: BaseException) -> bool:
    return primary_code(error) == sqlite3.SQLITE_FULL


def primary_code(error: BaseException) -> int | None:
    """SQLite's result code without its extension, None for what is not SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def as_log_error(path: Path, error: Exception) -> Exception:
    """SQLite's words in ours, with what to do. Anything that is not SQLite's or the file system's stays what it is."""
    code = primary_code(error)
    if code == sqlite3.SQLITE_FULL:
        return LogFull(f"{path}: no space left for the log ({error}); free disk space or let the loader catch up")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LogUnavailable(f"{path}: another process has held the lock for {BUSY_SECONDS:.0f} s ({error}); tried again")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return LogUnavailable(f"{path}: the file is damaged or is no log ({error}); move it away to start a new log")
    if isinstance(error, sqlite3.Error | OSError):
        return LogUnavailable(f"{path}: {error}")
    return error
