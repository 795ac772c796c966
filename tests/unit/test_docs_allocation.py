"""The published description of the allocation method: its worked example is recomputed by the oracle, its names are those of the code."""

import re
from fractions import Fraction
from pathlib import Path

from pipeline.attribution.scope import METHOD
from pipeline.demo.check import TOLERANCE
from schemas.catalog import gpus, models
from tests.oracle.money import (
    Attempt,
    Constants,
    Held,
    Price,
    allocate,
    context_at,
    cut_by_price,
    decoded_in,
    floor,
    pace_of,
    pieces_of,
    prefill_ps,
    prefilled_in,
    roofline_weights,
)

PAGE = Path(__file__).parents[2] / "docs" / "allocation" / f"{METHOD}.md"
S = 1_000_000_000
T = 3600 * S
MILLION = 1_000_000  # rates are taken in whole millions, times are in picoseconds


def row(name: str, columns: int) -> list[list[str]]:
    """Table rows of the page that begin with this cell."""
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines() if line.startswith("|"))
    return [cells for cells in rows if cells[0] == name and len(cells) == columns]


def attempt(name: str, begin: int, first_token: int, end: int, context: int, produced: int) -> Attempt:
    return Attempt(name, "r", T + begin, T + end, T + begin, T + first_token, T + end, input_tokens=context, output_tokens=produced)


def test_the_worked_example_is_what_the_method_says() -> None:
    gpu, model = gpus()["h100-sxm"], models()["llama-3.3-70b"]
    constants = Constants(
        flops_per_second=int(4 * gpu.flops("fp8") * Fraction("0.45")),
        bytes_per_second=int(4 * gpu.hbm_bytes_per_second * Fraction("0.70")),
        prefill_budget_tokens=8192,
        flop_per_token=model.flop_per_token,
        weight_bytes=model.weight_bytes("fp8"),
        kv_bytes_per_token=model.kv_bytes_per_token,
        attention_flop_per_token=model.attention_flop_per_token,
    )
    attempts = [
        attempt("a", 0, S // 2, 9 * S // 2, 4000, 161),
        attempt("b", -2 * S, -S, 9 * S, 2000, 601),
        attempt("c", -2 * S, -S, 9 * S, 30000, 601),
    ]
    held, price = Held("r", "h100-sxm", 4, T - 3600 * S, 2**63 - 1, constants), Price("p", "h100-sxm", 2_490_000_000_000, 0, 2**63 - 1)
    books = allocate(attempts, [held], [price], (T, T + S), S, S, 3600 * S)
    segments = cut_by_price(held, [price])
    cell = [(piece, T, T + S) for one in attempts for piece in pieces_of(one, segments, T, T + S, 3600 * S)]
    paces = {("r", held.from_ns, T // S): pace_of(cell, S)}
    assert f"pace of the slot is {paces['r', held.from_ns, T // S]:,}" in PAGE.read_text()
    decoded = [decoded_in(*span, paces, S, S, floor) for span in cell]
    weights, _ = roofline_weights(cell, decoded, constants, floor)
    flops, reads = constants.flops_per_second // MILLION, constants.bytes_per_second // MILLION
    for (piece, begin, end), d, weight in zip(cell, decoded, weights, strict=True):
        name, c = piece.attempt.attempt_id, context_at(piece, end)
        before, after = prefilled_in(piece, begin, end)
        assert d % 1000 == 0
        assert [cells[2:] for cells in row(name, 6)] == [[f"{x:,}" for x in (after - before, (before + after) // 2, d // 1000, c)]]
        ps = (
            prefill_ps(piece, begin, end, constants, floor),
            (constants.flop_per_token + constants.attention_flop_per_token * c) * d * 1000 // flops,
            constants.kv_bytes_per_token * d * c * 1000 // reads,
        )
        ns, atoms = books.ledger[T, "r", name, "useful", "B"]
        assert [cells[1:] for cells in row(name, 7)] == [[f"{x:,}" for x in (*ps, weight, atoms, ns)]], (ps, weight, atoms, ns)
    pool = books.pools[T, "r", "p", True]
    assert f"{pool.busy_atoms:,} atoms" in PAGE.read_text()
    assert f"`w` = {constants.weight_bytes * MILLION // reads:,} ps" in PAGE.read_text()


def test_files_and_tests_that_the_page_names_exist() -> None:
    root = PAGE.parents[2]
    named = re.findall(r"`((?:pipeline|schemas|tests)/[^`*]+\.(?:sql|py))`", PAGE.read_text())
    assert named
    assert [name for name in named if not (root / name).is_file()] == []


def test_the_page_claims_the_accuracy_that_the_demo_checks() -> None:
    assert f"more than {float(TOLERANCE):.0%} away" in PAGE.read_text()
