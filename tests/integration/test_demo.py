"""`tokenpath demo` does the whole main job and checks itself against the truth; here its result is looked at once more from outside."""

import csv
import json
from decimal import Decimal
from pathlib import Path

import pytest

from pipeline.demo.run import MARKER
from tests.processes import tokenpath

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Its directory and what it printed. It ends with 0 only if every figure agrees with the truth."""
    out = tmp_path_factory.mktemp("demo") / "out"
    done = tokenpath("demo", "--out", out, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return out, done.stdout


@pytest.fixture(scope="module")
def out(demo: tuple[Path, str]) -> Path:
    return demo[0]


def test_the_readme_shows_what_the_demo_prints(demo: tuple[Path, str]) -> None:
    def lines(text: str) -> list[str]:
        return [" ".join(line.replace("─", "").split()) for line in text.splitlines()]

    shown = README.read_text(encoding="utf-8").split("<!-- output: demo -->")[1].split("```")[1]
    printed = set(lines(demo[1]))
    assert [line for line in lines(shown) if line and line != "…" and line not in printed] == []


def test_every_kind_of_trouble_is_in_the_picture(out: Path) -> None:
    report = json.loads((out / "report.json").read_text())
    totals = report["totals"]
    assert len(report["tenants"]) >= 3
    assert all(totals["requests"][kind] > 0 for kind in ("useful", "late", "aborted", "failed", "blocked", "rejected"))
    assert totals["failed_attempts"] > totals["requests"]["failed"]
    assert 0.3 < totals["cache"]["hit_ratio"] < 0.8
    models = {row["model"] for row in map(json.loads, (out / "truth" / "requests.jsonl").read_text().splitlines())}
    replicas = {row["replica"] for row in map(json.loads, (out / "truth" / "replicas.jsonl").read_text().splitlines())}
    assert (len(models), len(replicas)) == (2, 4)


def test_money_is_conserved_to_the_atom(out: Path) -> None:
    conservation = json.loads((out / "report.json").read_text())["conservation"]
    assert conservation["pools_atoms"] == conservation["ledger_atoms"]
    assert int(conservation["pools_atoms"]) > 0


def test_the_leak_map_is_the_bill_and_names_stages(out: Path) -> None:
    report = json.loads((out / "report.json").read_text())
    assert sum(Decimal(cell["cost"]) for cell in report["leak"]).scaleb(12) == int(report["conservation"]["pools_atoms"])
    assert {cell["stage"] for cell in report["leak"] if cell["class"] == "late"} - {"other"}
    assert sum(row["requests"] for row in report["misses"]) >= report["totals"]["requests"]["late"]


def test_the_bill_adds_up_to_what_the_report_says_was_charged(out: Path) -> None:
    (bill,) = out.glob("focus-*.csv")
    with bill.open(newline="") as file:
        billed = sum(Decimal(row["BilledCost"]) for row in csv.DictReader(file))
    report = json.loads((out / "report.json").read_text())
    assert billed == sum(Decimal(row["charged"]) for row in report["tenants"])


def test_a_directory_of_somebody_else_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("precious")
    done = tokenpath("demo", "--out", tmp_path)
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert (tmp_path / "letter.txt").read_text() == "precious"
    assert not (tmp_path / MARKER).exists()
