"""What can go wrong in a replay.

WorkloadError
├── TraceInvalid    a line of the request trace cannot be used: file, line, what to do
├── ReplayRefused   the options contradict each other or name what does not exist
└── SendFailed      the receiver refused spans, or did not answer within the retries
"""

from pathlib import Path


class WorkloadError(Exception):
    """Root of what the CLI prints as one line."""


class TraceInvalid(WorkloadError):
    """A request trace that cannot be read as its format says."""

    def __init__(self, file: Path, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.file = file
        self.line = line


class ReplayRefused(WorkloadError):
    """Options that cannot be run."""


class SendFailed(WorkloadError):
    """Spans that did not reach the target. The replay stops: a part that is missing in silence would look like bad accounting."""
