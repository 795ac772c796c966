"""`make bench`, `python -m tests.bench [PART ...]`: measures this machine against the budgets, each part in processes of its own."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.bench.alone import MeasurementFailed, in_own_process
from tests.bench.parts import Figures, Part, parts
from tests.bench.table import as_json, table


def main(words: Sequence[str]) -> int:
    """0: measured; 1: a measurement failed, or with --check a budget was missed."""
    parser = arguments()
    asked = parser.parse_args(words)
    known = parts(asked.long)
    if unknown := set(asked.part) - known.keys():
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if asked.part:
        chosen = [known[name] for name in dict.fromkeys(asked.part)]
    else:
        chosen = [part for part in known.values() if part.by_default or (asked.panels and part.name == "panels")]
    err = Console(stderr=True)
    results = []
    for part in chosen:
        results.append((part, *measured(part, err)))
        # Written after each part, so that an interrupted bench leaves what it found.
        if asked.json:
            Path(asked.json).write_text(json.dumps(as_json(results), indent=2) + "\n", encoding="utf-8")
    Console().print(table(results))
    errors = [f"{part.name}, {name}: {text}" for part, _, failed in results for name, text in failed.items()]
    for error in errors:
        err.print(error, style="red", markup=False, highlight=False)
    missed = any(line.met(line.value(figures)) is False for part, figures, _ in results for line in part.lines)
    return 1 if errors or (asked.check and missed) else 0


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("part", nargs="*", help=f"only these of {', '.join(parts())}; by default all but money and panels")
    parser.add_argument("--panels", action="store_true", help="the dashboards' queries too (about ten minutes, 5 GB of disk)")
    parser.add_argument("--long", action="store_true", help="attribution of a million attempts too (minutes)")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--check", action="store_true", help="exit 1 when a budget is missed")
    return parser


def measured(part: Part, err: Console) -> tuple[Figures, dict[str, str]]:
    """Figures by `<measurement>.<figure>`, and what went wrong by measurement."""
    figures: dict[str, float] = {}
    errors: dict[str, str] = {}
    for measurement in part.measurements:
        began = time.monotonic()
        with err.status(f"{part.title} ({measurement.name})"):
            try:
                found = in_own_process(measurement.module, measurement.arguments, measurement.timeout_s)
            except MeasurementFailed as error:
                errors[measurement.name] = str(error)
                continue
        figures |= {f"{measurement.name}.{name}": value for name, value in found.items()}
        err.print(f"{part.name} ({measurement.name}): {time.monotonic() - began:.0f} s", style="dim", highlight=False)
    return figures, errors


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
