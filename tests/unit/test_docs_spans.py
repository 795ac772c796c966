"""docs/spans.md names every attribute that our own profile reads, and no stage is missing from it."""

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from schemas.stages import STAGES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spans.md").read_text(encoding="utf-8")


def texts(node: Any) -> list[str]:
    if isinstance(node, dict):
        return [text for value in node.values() for text in texts(value)]
    if isinstance(node, list):
        return [text for value in node for text in texts(value)]
    return [node] if isinstance(node, str) else []


def named_attributes() -> set[str]:
    """Full names; `a.b`, `.c` in one cell stands for a.b and a.c."""
    found: set[str] = set()
    for cell in re.findall(r"^\| (`tokenpath[^|]*)\|", PAGE, re.MULTILINE):
        names = re.findall(r"`([^`]+)`", cell)
        found |= {name if not name.startswith(".") else names[0].rsplit(".", 1)[0] + name for name in names}
    return found


def test_the_page_names_every_attribute_that_the_profile_reads() -> None:
    profile = tomllib.loads((files("schemas") / "profiles" / "tokenpath.toml").read_text(encoding="utf-8"))
    read = {text for text in texts(profile) if text.startswith("tokenpath.")}
    assert read
    assert read <= named_attributes()


def test_the_tree_shows_every_stage() -> None:
    tree = PAGE.split("```")[1]
    assert {stage for stage in STAGES if not re.search(rf"\b{stage}\b", tree)} == set()
