"""Rows of a file that may be larger than memory: JSON lines, one JSON array, or CSV with a header; the first bytes tell which.

Offsets count bytes of the (unpacked) content. Reading may begin at an offset that a row ended at.
"""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

ROW_BYTES_MAX = 33_554_432
CHUNK_BYTES = 1_048_576
HEAD_BYTES = 1_024  # blanks before the first row are fewer
BOM = b"\xef\xbb\xbf"
# Whole strings, brackets, and the opening quote of a string whose end is not here yet.
TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]"]', re.DOTALL)

csv.field_size_limit(ROW_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class FileRow:
    """`value` is None where the row cannot be read; `error` says why. `end`: offset after it; `line`: where it begins, from 1.

    Where the content ends in the middle of a row (somebody still writes it), `end` and `end_line` are where that row begins.
    """

    line: int
    end: int
    end_line: int
    value: dict[str, Any] | None
    error: str
    raw: bytes


def rows(stream: BinaryIO, offset: int = 0, line: int = 1) -> Iterator[FileRow]:
    """`stream` can seek. `offset` and `line`: `end` and `end_line` of a row of the same content, or the beginning."""
    stream.seek(0)
    first = stream.read(HEAD_BYTES).removeprefix(BOM).lstrip()
    if first.startswith(b"["):
        return _elements(stream, offset, line)
    if first.startswith(b"{") or not first:
        return _lines(stream, offset, line)
    return _records(stream, offset, line)


def _lines(stream: BinaryIO, offset: int, line: int) -> Iterator[FileRow]:
    stream.seek(offset)
    while raw := stream.readline(ROW_BYTES_MAX):
        offset += len(raw)
        oversize = len(raw) == ROW_BYTES_MAX and not raw.endswith(b"\n")
        while oversize and (rest := stream.readline(CHUNK_BYTES)):
            offset += len(rest)
            if rest.endswith(b"\n"):
                break
        line += 1
        text = raw.removeprefix(BOM).strip()
        if oversize:
            yield FileRow(line - 1, offset, line, None, f"the line has more than {ROW_BYTES_MAX} bytes", raw[:CHUNK_BYTES])
        elif text:
            row = _row(text, line - 1, offset, line)
            if row.value is None and not raw.endswith(b"\n"):
                row = replace(row, end=offset - len(raw), end_line=line - 1, error=f"the file ends in the middle of this line; {row.error}")
            yield row


def _row(raw: bytes, line: int, end: int, end_line: int) -> FileRow:
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        return FileRow(line, end, end_line, None, f"not JSON: {error}", raw)
    if not isinstance(value, dict):
        return FileRow(line, end, end_line, None, "not a JSON object", raw)
    return FileRow(line, end, end_line, value, "", raw)


def _elements(stream: BinaryIO, offset: int, line: int) -> Iterator[FileRow]:
    """Objects of an array. Where its brackets do not fit together the rest cannot be read, and is one bad row."""
    window = _Window(stream, offset, line)
    if offset == 0:
        window.skip(BOM + b" \t\r\n[", one=b"[")
    while True:
        window.skip(b" \t\r\n,")
        if not window.more():
            yield window.rest("the array has no end")
            return
        if window.starts_with(b"]"):
            return
        size = window.element()
        if size is None:
            yield window.rest("this element of the array has no end, or is too large")
            return
        began = window.line
        raw = window.take(size)
        yield _row(raw, began, window.offset, window.line)


class _Window:
    """The part of an array that is in memory. `offset`, `line`: of its first byte."""

    def __init__(self, stream: BinaryIO, offset: int, line: int) -> None:
        self._stream, self._buffer, self.offset, self.line = stream, b"", offset, line
        stream.seek(offset)

    def more(self) -> bool:
        """Whether there is a byte."""
        return bool(self._buffer) or self._fill()

    def starts_with(self, byte: bytes) -> bool:
        return self._buffer[:1] == byte

    def _fill(self) -> bool:
        chunk = self._stream.read(CHUNK_BYTES)
        self._buffer += chunk
        return bool(chunk)

    def skip(self, what: bytes, one: bytes = b"") -> None:
        """Bytes of `what`; of `one` only the first."""
        while self.more():
            here = self._buffer[:1]
            if here not in (what[n : n + 1] for n in range(len(what))):
                return
            self.take(1)
            if here == one:
                return

    def element(self) -> int | None:
        """Bytes of the element that begins here; None if it does not end within ROW_BYTES_MAX."""
        if not self.starts_with(b"{"):
            return self._scalar()
        depth, at = 0, 0
        while True:
            for token in TOKENS.finditer(self._buffer, at):
                text = token[0]
                if text == b'"':
                    break  # its end is not here yet
                at = token.end()
                depth += 1 if text in (b"{", b"[") else -1 if text in (b"}", b"]") else 0
                if depth == 0:
                    return at
            else:
                at = len(self._buffer)
            if len(self._buffer) > ROW_BYTES_MAX or not self._fill():
                return None

    def _scalar(self) -> int | None:
        while (end := re.search(rb"[,\]]", self._buffer)) is None:
            if len(self._buffer) > ROW_BYTES_MAX or not self._fill():
                return None
        return end.start() or 1

    def take(self, size: int) -> bytes:
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        self.offset += size
        self.line += taken.count(b"\n")
        return taken

    def rest(self, error: str) -> FileRow:
        raw, began = self._buffer[:CHUNK_BYTES], self.line
        self.take(len(self._buffer))
        while self._fill():
            self.take(len(self._buffer))
        return FileRow(began, self.offset, self.line, None, error, raw)


def _records(stream: BinaryIO, offset: int, line: int) -> Iterator[FileRow]:
    """CSV. A field may hold line breaks."""
    stream.seek(0)
    source = _CountedLines(stream, 0)
    header = [name.strip() for name in next(csv.reader(source), [])]
    if offset == 0:
        line = 1 + source.lines
    else:
        stream.seek(offset)
        source = _CountedLines(stream, offset)
    base, before = line - source.lines, line
    reader = csv.reader(source)
    while True:
        begins = source.offset
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield FileRow(before, source.offset, base + source.lines, None, f"not CSV: {error}", source.last)
            before = base + source.lines
            continue
        began, before = before, base + source.lines
        if not cells:
            continue
        value = dict(zip(header, cells, strict=False))
        if len(cells) != len(header):
            raw = json.dumps(cells, ensure_ascii=False).encode("utf-8", "replace")
            why = f"{len(cells)} fields, but the header has {len(header)}"
            if source.last.endswith(b"\n"):
                yield FileRow(began, source.offset, before, None, why, raw)
            else:
                yield FileRow(began, begins, began, None, f"the file ends in the middle of this row; {why}", raw)
        else:
            yield FileRow(began, source.offset, before, value, "", json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


class _CountedLines:
    """Lines as text; counts what was handed out. A line that is too long is cut, and csv refuses its field."""

    def __init__(self, stream: BinaryIO, offset: int) -> None:
        self._stream, self.offset, self.lines, self.last = stream, offset, 0, b""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.last = self._stream.readline(ROW_BYTES_MAX)
        if not self.last:
            raise StopIteration
        whole = self.last.removeprefix(BOM) if self.offset == 0 else self.last
        self.offset += len(self.last)
        self.lines += 1
        return whole.decode("utf-8", "replace")
