"""Where in a TOML file something stands."""

import pytest
from pydantic import BaseModel, ConfigDict

from schemas.source import SourceError, line_of, locations, read

TEXT = """\
currency = "USD"   # one
[[gpu]]
id = "a"
[[gpu]]
id = "b"
match = { "service.name" = "x" }
[gpu.limits]
"a.b" = 1
[[gpu.part]]
size.small = 1
[[gpu.part]]
[billable]
late = ["all"]
"""


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = 0


class File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    currency: str
    gpu: list[Part] = []


def test_every_header_and_key_is_found_at_its_line() -> None:
    lines = locations(TEXT)
    assert lines[("currency",)] == 1
    assert lines[("gpu", 0)] == 2
    assert lines[("gpu", 1, "id")] == 5
    assert lines[("gpu", 1, "limits", "a.b")] == 8
    assert lines[("gpu", 1, "part", 0, "size", "small")] == 10
    assert lines[("gpu", 1, "part", 1)] == 11
    assert lines[("billable", "late")] == 13


def test_a_place_without_a_line_of_its_own_is_shown_at_what_surrounds_it() -> None:
    lines = locations(TEXT)
    assert line_of(lines, ("gpu", 1, "match", "service.name")) == 6
    assert line_of(lines, ("gpu", 0, "usd_per_gpu_hour")) == 2
    assert line_of(lines, ()) == 1


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('currency = "USD"\ncurency = "USD"\n', 2, "curency: unknown key"),
        ('currency = "USD"\n[[gpu]]\n[[gpu]]\nsize = "x"\n', 4, "gpu.1.size"),
        ("\n[[gpu]]\n", 1, "currency: is missing"),
        ('currency = "USD"\n\nx = = 1\n', 3, "not valid TOML"),
        ('currency = "USD"\n[[gpu]]\nsize = "x"\ncolour = 1\n', 3, "(and 1 more)"),
    ],
)
def test_what_is_refused_is_refused_with_file_and_line(text: str, line: int, words: str) -> None:
    with pytest.raises(SourceError) as caught:
        read(File, "prices.toml", text)
    assert (caught.value.file, caught.value.line) == ("prices.toml", line)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"prices.toml:{line}: ")
