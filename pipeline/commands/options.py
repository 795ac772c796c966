"""Options that several commands share, and what they do with them."""

import signal
import threading
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.command import Command
from pipeline.errors import ConfigurationError

Config = Annotated[
    Path | None, typer.Option("--config", help="Directory of tokenpath.toml and its neighbours (./tokenpath.d, else the packaged example).")
]
Data = Annotated[Path | None, typer.Option("--data", help="Directory of the embedded store and log (./tokenpath-data).")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Log what is done.")]
From = Annotated[str | None, typer.Option("--from", metavar="TIME", help="UTC: 2026-11-30 or 2026-11-30T10:00:00Z.")]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="UTC, exclusive.")]


def progress_of(command: Command, unit: str) -> Any:
    from pipeline.progress import progress

    return progress(command.err, unit)


def reading(command: Command) -> Any:
    from pipeline.serving.instance import migrated_store

    return migrated_store(command.settings.store, command.data)


def dead_letters(command: Command) -> int | None:
    from pipeline.serving.processes import dead_letter_count

    return dead_letter_count(command.settings)


def stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def decimal_of(option: str, text: str | None) -> Decimal | None:
    """A plain number. Raises ConfigurationError."""
    try:
        number = None if text is None else Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if number is not None and not number.is_finite():
        raise ConfigurationError(f"{option} {text!r} is no number")
    return number


def time_of(option: str, text: str | None, otherwise: datetime | None) -> datetime:
    """An ISO time; without a zone it is UTC. Raises ConfigurationError."""
    if text is None:
        if otherwise is None:
            raise ConfigurationError(f"{option} is missing: give a time such as 2026-11-30T10:00:00Z")
        return otherwise
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"{option} {text!r} is no time: write 2026-11-30 or 2026-11-30T10:00:00Z") from error
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at
