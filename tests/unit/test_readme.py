"""The README's commands exist, its links lead somewhere, its figures are the demo's."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from pipeline.cli import app

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Every line of every sh block, without comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for raw in block.splitlines() if (line := raw.split("#")[0].strip())]


def inline() -> list[str]:
    """`tokenpath …` in running text."""
    return [code for code in re.findall(r"`(tokenpath [^`]+)`", README) if not code.endswith(".toml")]


@pytest.mark.parametrize("line", [c for c in commands() if c.startswith("make ")])
def test_make_targets_exist(line: str) -> None:
    assert re.search(rf"^{line.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", sorted({c for c in (*commands(), *inline()) if c.startswith("tokenpath")}))
def test_every_tokenpath_command_parses(line: str) -> None:
    command = get_command(app)
    words = shlex.split(line)[1:]
    while words and hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    if words:
        command.make_parser(command.make_context("x", [], resilient_parsing=True)).parse_args(list(words))


def test_nothing_else_is_asked_of_the_reader_than_what_is_known() -> None:
    others = {c.split()[0] for c in commands()} - {"make", "tokenpath"}
    assert others == {"cp", "docker"}
    assert (ROOT / ".env.example").exists()


def test_links_and_pictures_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
