"""Environments of the software under test: one virtual environment each, under .e2e/, from the pinned list of its name beside this module.

The lists name every package and are installed without resolving: the metadata of some of these releases cannot be satisfied
as published. An environment is made once and made again when its list changes.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".e2e"
PINS = Path(__file__).resolve().parent / "environments"
INSTALL_SECONDS = 1200


class CannotRun(Exception):
    """Why this software is not to be had on this machine."""


def python_of(name: str) -> Path:
    """The interpreter of environment `name`. Raises CannotRun with the end of pip's output."""
    pins = PINS / f"{name}.txt"
    directory = CACHE / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
    python, stamp = directory / "bin" / "python", directory / "pins.sha256"
    wanted = hashlib.sha256(pins.read_bytes()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == wanted):
        shutil.rmtree(directory, ignore_errors=True)
        finish([sys.executable, "-m", "venv", str(directory)], INSTALL_SECONDS)
        finish([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", str(pins)], INSTALL_SECONDS)
        stamp.write_text(wanted)
    return python


def finish(command: list[str], timeout_s: float, **variables: str) -> str:
    """stdout of a command that prepares an environment. Raises CannotRun."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, env={**os.environ, **variables})
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"{' '.join(command[:4])}: {error}") from error
    if done.returncode:
        raise CannotRun(f"{' '.join(command[:4])}: exit {done.returncode}: {(done.stderr or done.stdout)[-800:]}")
    return done.stdout


def required_python(name: str) -> Path:
    """As `python_of`; skips the test with the reason."""
    try:
        return python_of(name)
    except CannotRun as error:
        pytest.skip(f"environment {name} cannot be made here: {error}")
