"""The log: `sqlite:<file>` or `kafka://host:port[,host:port]` behind the Protocols of `schemas/log.py`."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.log.sqlite import SqliteAppendLog, SqliteReadLog
from schemas.log import AppendLog, ReadLog
from schemas.settings import LogSettings


def open_append_log(settings: LogSettings, max_body_bytes: int, topics: Sequence[str]) -> AppendLog:
    """Opens the log for values of up to max_body_bytes and makes missing topics.
    Raises ConfigurationError or LogUnavailable."""
    path = sqlite_path(settings)
    if path is not None:
        return SqliteAppendLog(path, max_body_bytes, topics)
    check_kafka(settings)
    from pipeline.log.kafka import KafkaAppendLog

    return KafkaAppendLog(settings, max_body_bytes, topics)


def open_read_log(settings: LogSettings, topics: Sequence[str], group: str | None) -> ReadLog:
    """Opens the log for reading; with group None from the beginning and without commits (see ReadLog).
    Raises ConfigurationError or LogUnavailable."""
    path = sqlite_path(settings)
    if path is not None:
        return SqliteReadLog(path, topics, group)
    check_kafka(settings)
    from pipeline.log.kafka import KafkaReadLog

    return KafkaReadLog(settings, topics, group)


def sqlite_path(settings: LogSettings) -> Path | None:
    """The file, absolute; None for another kind of log. A relative path is relative to the working directory of now."""
    if not settings.url.startswith("sqlite:"):
        return None
    path = settings.url.removeprefix("sqlite:")
    if not path:
        raise ConfigurationError(f"[log] url = {settings.url!r}: expected sqlite:<file>")
    return Path(path).absolute()


def check_kafka(settings: LogSettings) -> None:
    """Raises ConfigurationError for an unknown kind of log, or when Kafka's client is not installed."""
    if not settings.url.startswith("kafka://"):
        raise ConfigurationError(f"[log] url = {settings.url!r}: expected sqlite:<file> or kafka://host:port[,host:port]")
    try:
        import crc32c  # noqa: F401  without it kafka-python computes checksums in Python
        import kafka  # noqa: F401
        import lz4  # noqa: F401
        import zstandard  # noqa: F401  Collectors write it
    except ImportError as error:
        raise ConfigurationError(f"[log] url = {settings.url!r} needs Kafka's client ({error}): pip install 'tokenpath[kafka]'") from error
