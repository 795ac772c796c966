"""Reading a user's TOML file into a model, so that whatever is refused is refused with file and line."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

Location = tuple[str | int, ...]  # ("gpu", 1, "from"): key `from` of the second [[gpu]]

_HEADER = re.compile(r"^\s*(?P<open>\[\[?)\s*(?P<name>[^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY_PART = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_KEY = re.compile(rf"^\s*(?P<name>{_KEY_PART}(?:\s*\.\s*{_KEY_PART})*)\s*=")
_PART = re.compile(_KEY_PART)


class Refusal(NamedTuple):
    """Why a file cannot be used, and where in it."""

    location: Location
    message: str
    weak: bool = False  # likely the consequence of another: a key that is missing because it was misspelt


class SourceError(ValueError):
    """A file that is refused: `file:line: message`."""

    def __init__(self, file: str, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.file, self.line, self.message = file, line, message


Kind = TypeVar("Kind", bound=BaseModel)


def read(kind: type[Kind], file: str, text: str) -> Kind:
    """The text as a `kind`. Raises SourceError at the first thing refused; its message counts the others."""
    try:
        return kind.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise SourceError(file, int(line[1]) if line else len(text.splitlines()), f"not valid TOML: {error}") from error
    except ValidationError as error:
        raise refused(file, text, refusals(error)) from error


def check(file: str, text: str, found: Iterable[Refusal]) -> None:
    """Raises SourceError if there is any refusal."""
    if found := list(found):
        raise refused(file, text, found)


def refused(file: str, text: str, found: Sequence[Refusal]) -> SourceError:
    """The error for the most telling of them, else the first in the file; it counts the others."""
    lines = locations(text)
    first = min(found, key=lambda refusal: (refusal.weak, line_of(lines, refusal.location)))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return SourceError(file, line_of(lines, first.location), first.message + more)


def refusals(error: ValidationError) -> list[Refusal]:
    """What pydantic refuses, in our words."""
    errors: list[dict[str, Any]] = [dict(one) for one in error.errors(include_url=False)]
    # A list of which every item was refused is reported as too short as well: only the innermost places count.
    around = {one["loc"][:size] for one in errors for size in range(len(one["loc"]))}
    return [_refusal(one) for one in errors if one["loc"] not in around]


def line_of(lines: Mapping[Location, int], location: Location) -> int:
    """Line of the place or, where it has none of its own, of the innermost table or key around it; 1 for the file as a whole."""
    return next((lines[location[:size]] for size in range(len(location), 0, -1) if location[:size] in lines), 1)


def locations(text: str) -> dict[Location, int]:
    """Line number, from 1, of every table header and every `key =` line. tomllib tells no lines."""
    found: dict[Location, int] = {}
    newest: dict[Location, int] = {}  # array of tables -> index of its last table
    table: Location = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            names = _parts(header["name"])
            table = ()
            for name in names[:-1]:
                table = _enter(table, name, newest)
            if header["open"] == "[[":
                array = (*table, names[-1])
                newest[array] = newest.get(array, -1) + 1
                table = (*array, newest[array])
                found.setdefault(array, number)
            else:
                table = _enter(table, names[-1], newest)
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            place = table
            for name in _parts(key["name"]):
                place = (*place, name)
                found.setdefault(place, number)
    return found


def _enter(table: Location, name: str, newest: Mapping[Location, int]) -> Location:
    place = (*table, name)
    return (*place, newest[place]) if place in newest else place


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(name)]


def _refusal(error: dict[str, Any]) -> Refusal:
    location: Location = tuple(error["loc"])
    name = ".".join(str(part) for part in location)
    words = {"extra_forbidden": "unknown key", "missing": "is missing"}.get(error["type"], error["msg"].removeprefix("Value error, "))
    return Refusal(location, f"{name}: {words}" if name else words, weak=error["type"] == "missing")
