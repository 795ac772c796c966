"""What can go wrong, and what is done about it.

TokenpathError
├── BadData                the sender's fault: goes to the dead letters with its reason, work goes on
│   └── TooManyDeadLetters so much bad data that a person must look: the loader stops, exit 4
├── DependencyDown         the world's fault: bounded back-off, nothing committed, never a dead letter; exit 3
│   ├── StoreDown
│   └── LogDown            (pipeline's name for schemas.log.LogUnavailable and LogFull)
├── ConfigurationError     the operator's fault: one line with file, key and remedy; exit 2
└── CheckFailed            a promise is broken (conservation): publishing and billing stop; exit 1

Anything else is a bug and crashes loudly with its traceback.
"""

EXIT_OK, EXIT_FAILED, EXIT_CONFIGURATION, EXIT_DEPENDENCY, EXIT_REFUSED = 0, 1, 2, 3, 4


class TokenpathError(Exception):
    """Root of every error that the CLI prints as one line instead of a traceback."""

    exit_code = EXIT_FAILED


class BadData(TokenpathError):
    """A message that the decoder refuses. `reason` is one low-cardinality word, the message says the rest."""

    exit_code = EXIT_REFUSED

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class TooManyDeadLetters(BadData):
    """The share or the run length of dead letters passed the configured limit."""


class DependencyDown(TokenpathError):
    """A service or file that we need does not answer."""

    exit_code = EXIT_DEPENDENCY


class StoreDown(DependencyDown):
    """ClickHouse, embedded or server, cannot be reached or cannot write (disk full, read-only, memory limit)."""


class LogDown(DependencyDown):
    """Kafka or the SQLite log cannot be reached or cannot be written."""


class ConfigurationError(TokenpathError):
    """A setting, price book, inventory or profile that cannot be used."""

    exit_code = EXIT_CONFIGURATION


class CheckFailed(TokenpathError):
    """A check that must hold does not: the figures are not published."""
