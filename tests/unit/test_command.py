"""How a command ends when packages, dependencies or the loader are missing."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.command import EXTRAS, guarded, missing_extra
from pipeline.errors import StoreDown
from pipeline.reporting.status import LogPosition
from pipeline.serving.processes import LOADER_SECONDS, loader_stands
from pipeline.serving.up import works
from schemas.log import LogUnavailable
from schemas.settings import Settings

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]


def test_every_extra_that_a_message_names_exists() -> None:
    assert set(EXTRAS.values()) <= PROJECT["optional-dependencies"].keys()


def test_a_missing_package_of_an_extra_is_one_line_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    def run() -> None:
        try:
            raise ModuleNotFoundError("No module named 'chdb'", name="chdb")
        except ModuleNotFoundError as error:  # as clickhouse-connect does it
            raise ImportError("the backend needs a package") from error

    assert guarded(run) == 2
    assert "pip install 'tokenpath[embedded]'" in capsys.readouterr().err


def test_an_import_that_no_extra_brings_is_a_bug_and_crashes() -> None:
    def run() -> None:
        raise ModuleNotFoundError("No module named 'pipeline.mistyped'", name="pipeline.mistyped")

    with pytest.raises(ModuleNotFoundError):
        guarded(run)
    assert missing_extra(ImportError("cannot import name", name=None)) is None


def test_a_part_that_does_not_answer_does_not_work() -> None:
    def down(error: Exception) -> object:
        raise error

    assert works(lambda: 1)
    assert not works(lambda: down(StoreDown("away")))
    assert not works(lambda: down(LogUnavailable("away")))


@pytest.mark.parametrize(
    ("committed", "stands"),
    [
        ([5, 5, 5, 5, 5, 5], True),  # nobody takes the five that wait
        ([5, 5, 6], False),  # slow, but it goes on
        ([10], False),  # nothing waits
    ],
)
def test_the_loader_stands_when_records_wait_and_no_offset_is_committed(committed: list[int], stands: bool) -> None:
    slept: list[float] = []

    def at(offset: int) -> Sequence[LogPosition]:
        return [LogPosition("otlp_spans", 0, 10, offset)]

    def ask(_: Settings) -> Sequence[LogPosition]:
        return at(committed[min(len(slept), len(committed) - 1)])

    assert loader_stands(Settings(), at(committed[0]), ask, slept.append) is stands
    assert len(slept) == (1 + LOADER_SECONDS if stands else len(committed) - 1)
