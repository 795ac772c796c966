"""What every command of the CLI starts with: configuration, data directory, consoles, logging; and how it ends when something is wrong."""

import json
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.logging import RichHandler

from pipeline.configuration.versions import Configuration, load_configuration
from pipeline.errors import EXIT_CONFIGURATION, EXIT_DEPENDENCY, TokenpathError
from schemas.log import LogFull, LogUnavailable
from schemas.settings import LogSettings, Settings, StoreSettings

DEFAULT_DATA = Path("tokenpath-data")
FILE_WIDTH = 140
# Package as imported -> the extra of pyproject.toml that brings it.
EXTRAS = {
    "chdb": "embedded",
    "crc32c": "kafka",
    "grafana_client": "dashboards",
    "jinja2": "dashboards",
    "kafka": "kafka",
    "opentelemetry": "replay",
    "plotly": "dashboards",
    "requests": "dashboards",
}


@dataclass(frozen=True)
class Command:
    configuration: Configuration
    settings: Settings  # as configured, with absolute paths and --data applied
    data: Path
    as_json: bool
    out: Console
    err: Console

    def print_json(self, content: Any) -> None:
        """Exactly the JSON, nothing folded or coloured."""
        print(json.dumps(content, indent=2, ensure_ascii=False), file=self.out.file)


def prepare(config: Path | None, data: Path | None, as_json: bool, verbose: bool) -> Command:
    """Reads the configuration and sets up logging. Raises ConfigurationError."""
    err = Console(stderr=True)
    set_up_logging(err, verbose)
    configuration = load_configuration(config, environment=os.environ)
    directory = (data or _data_of(configuration.settings)).absolute()
    return Command(configuration, located(configuration.settings, directory), directory, as_json, Console(width=_width()), err)


def _width() -> int | None:
    """The terminal's, or COLUMNS; a file or pipe has no edge to cut a table at."""
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else FILE_WIDTH


def located(settings: Settings, data: Path) -> Settings:
    """The same settings with store and log in `data`, unless they were put elsewhere, and every path absolute (the embedded engine
    changes the working directory)."""
    store, log = settings.store.url, settings.log.url
    if store == StoreSettings().url:
        store = f"chdb:{data / 'store'}"
    elif store.startswith("chdb:"):
        store = f"chdb:{Path(store.removeprefix('chdb:')).absolute()}"
    if log == LogSettings().url:
        log = f"sqlite:{data / 'log.sqlite'}"
    elif log.startswith("sqlite:"):
        log = f"sqlite:{Path(log.removeprefix('sqlite:')).absolute()}"
    return settings.model_copy(
        update={"store": settings.store.model_copy(update={"url": store}), "log": settings.log.model_copy(update={"url": log})}
    )


def _data_of(settings: Settings) -> Path:
    """Beside the store, when that was put somewhere."""
    url = settings.store.url
    return Path(url.removeprefix("chdb:")).absolute().parent if url.startswith("chdb:") and url != StoreSettings().url else DEFAULT_DATA


class JsonLines(logging.Formatter):
    """One JSON object a line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        content = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in ("run", "batch"):
            if hasattr(record, name):
                content[name] = getattr(record, name)
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str, ensure_ascii=False)


def set_up_logging(err: Console, verbose: bool) -> None:
    """People see warnings (all with -v), machines JSON lines on stderr."""
    handler: logging.Handler
    if err.is_terminal:
        handler = RichHandler(console=err, show_path=False, rich_tracebacks=False)
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonLines())
    level = logging.INFO if verbose or not err.is_terminal else logging.WARNING
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # each outage is many lines there, and one of ours
    for noisy in ("httpx", "httpcore", "urllib3", "opentelemetry", "grpc", "clickhouse_connect"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def guarded(run: Callable[[], Any]) -> int:
    """Runs the CLI. Errors that are meant for the operator become one line and an exit code; anything else is a bug and shows its trace."""
    try:
        run()
    except TokenpathError as error:
        _say(str(error))
        return error.exit_code
    except (LogUnavailable, LogFull) as error:
        _say(f"log: {error}")
        return EXIT_DEPENDENCY
    except ImportError as error:
        extra = missing_extra(error)
        if extra is None:
            raise
        _say(f"this needs packages that are not installed: pip install 'tokenpath[{extra}]'")
        return EXIT_CONFIGURATION
    except KeyboardInterrupt:
        return 130
    return 0


def missing_extra(error: ImportError) -> str | None:
    """The extra that brings what could not be imported; None where the import itself is a bug."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ImportError) and (extra := EXTRAS.get((cause.name or "").partition(".")[0])):
            return extra
        cause = cause.__cause__
    return None


def _say(message: str) -> None:
    Console(stderr=True).print(f"error: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
