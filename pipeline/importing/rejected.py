"""Rows that were not imported, kept for whoever can mend them."""

import json
from pathlib import Path
from typing import BinaryIO, cast

from pipeline.errors import ConfigurationError

RAW_BYTES_MAX = 1_048_576  # of a row


class Rejected:
    """Rows that were not imported: JSON lines with file, line, error and the row itself. The file is made for the first one."""

    def __init__(self, path: Path, size: int, dry_run: bool) -> None:
        self.path, self.size = path, size
        self._dry_run, self._file = dry_run, cast(BinaryIO | None, None)

    def __enter__(self) -> "Rejected":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, source: Path, line: int, row: bytes, why: str) -> None:
        if self._dry_run:
            return
        if self._file is None:
            self._file = self._opened()
        text = row[:RAW_BYTES_MAX].decode("utf-8", "replace")
        entry = json.dumps({"file": str(source), "line": line, "error": why, "row": text}, ensure_ascii=False).encode()
        self.size += self._file.write(entry + b"\n")

    def _opened(self) -> BinaryIO:
        """Without what an interrupted run wrote and did not note."""
        try:
            file = self.path.open("r+b" if self.path.exists() else "w+b")
        except OSError as error:
            raise ConfigurationError(f"{self.path}: {error.strerror}; --rejected-dir names another place for such rows") from error
        self.size = file.truncate(min(self.size, self.path.stat().st_size))
        file.seek(self.size)
        return file

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()
