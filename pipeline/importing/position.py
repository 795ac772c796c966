"""How far a file was imported, kept beside the data: an import that ended early goes on, one that ended does nothing again.

It only saves work. Ids come from the records, so reading a file again from its beginning changes nothing either.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO

HEAD_BYTES = 65_536
PIECE_BYTES = 1_024  # what is incomplete gives only whole pieces


@dataclass(frozen=True, slots=True)
class Position:
    """`head`: hash of the content's first `head_bytes`, by which a rotated file is known. `rejected_bytes`: of the rejected rows."""

    head: str = ""
    head_bytes: int = 0
    offset: int = 0
    line: int = 1
    rejected_bytes: int = 0


class Positions:
    """One small file for each import: a path, read with the same options."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def of(self, path: Path, options: Sequence[str], content: BinaryIO) -> Position:
        """Where to begin in `content`: the beginning (with its head) where nothing is known, or the file is another one now."""
        try:
            known = Position(**json.loads(self._file(path, options).read_text()))
        except (OSError, ValueError, TypeError):
            known = Position()
        if known.offset and _head(content, known.head_bytes) == (known.head, known.head_bytes):
            return known
        head, size = _head(content, HEAD_BYTES)
        return Position(head, size)

    def keep(self, path: Path, options: Sequence[str], position: Position) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        file = self._file(path, options)
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(position)))
        temporary.replace(file)

    def _file(self, path: Path, options: Sequence[str]) -> Path:
        key = hashlib.sha256("\0".join((str(path.absolute()), *options)).encode("utf-8", "surrogateescape")).hexdigest()
        return self._directory / f"{key[:32]}.json"


def _head(content: BinaryIO, size: int) -> tuple[str, int]:
    content.seek(0)
    head = b""
    try:
        while len(head) < size and (piece := content.read(min(PIECE_BYTES, size - len(head)))):
            head += piece
    except EOFError:  # a gzip file that is not complete; what is there counts
        pass
    return hashlib.sha256(head).hexdigest(), len(head)


def after(position: Position, offset: int, line: int, rejected_bytes: int) -> Position:
    return replace(position, offset=offset, line=line, rejected_bytes=rejected_bytes)
