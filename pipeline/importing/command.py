"""`tokenpath import` as a command: what it asks for, checked, and the log that it appends to."""

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pipeline.command import Command
from pipeline.errors import ConfigurationError
from pipeline.importing.job import Import, Options, Read, Step
from pipeline.importing.position import Positions
from pipeline.importing.summary import Summary
from pipeline.serving.processes import append_log
from schemas.settings import Principal

DAY_NS = 86_400_000_000_000


@dataclass(frozen=True)
class ImportRequest:
    files: tuple[Path, ...]
    format: str
    principal: str
    service: str
    rejected_dir: Path | None
    from_beginning: bool
    dry_run: bool


def run_import(command: Command, request: ImportRequest, read: Read, step: Step) -> Summary:
    """Raises ConfigurationError, LogFull, LogUnavailable. Rejected rows are in the summary."""
    try:
        principal = TypeAdapter[str](Principal).validate_python(request.principal)
    except ValidationError as error:
        raise ConfigurationError(f"--principal {request.principal}: expected platform or tenant/<id>") from error
    options = Options(
        files=request.files,
        principal=principal,
        marks=(request.format, request.service),
        max_age_ns=command.settings.attribution.max_span_age_days * DAY_NS,
        max_body_bytes=command.settings.receive.max_body_bytes,
        rejected_dir=request.rejected_dir,
        from_beginning=request.from_beginning,
        dry_run=request.dry_run,
    )
    with ExitStack() as stack:
        log = None if request.dry_run else stack.enter_context(closing(append_log(command.settings)))
        return Import(options, read, log, Positions(command.data / "imports")).run(step)
