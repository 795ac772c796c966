"""docs/records.md: its commands exist, and it names every format, every profile of records and every attribute that is worked out."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from collectors.records import FORMATS
from collectors.records.dynamo import SCHEMA
from pipeline.cli import app

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "records.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_parses(line: str) -> None:
    program, name, *words = shlex.split(line)
    assert (program, name) == ("tokenpath", "import")
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    command.make_parser(command.make_context("x", [], resilient_parsing=True)).parse_args(words)


def test_every_format_is_explained() -> None:
    assert COMMANDS
    for name in FORMATS:
        assert re.search(name, PAGE, re.IGNORECASE), name
    assert SCHEMA in PAGE


def test_options_of_the_page_are_options_of_the_command() -> None:
    known = {text for parameter in get_command(app).commands["import"].params for text in parameter.opts}  # type: ignore[attr-defined]
    section = PAGE.partition("## From files")[2].partition("\n## ")[0]
    assert set(re.findall(r"--[a-z-]+", section)) <= known
