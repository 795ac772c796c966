"""How figures are shown to people, in every table of the reading commands."""

from datetime import datetime
from decimal import Decimal

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

UNKNOWN = "–"


def blank_table(title: str, *, show_footer: bool = False) -> Table:
    """Figures never wrap or shrink; where the terminal is narrow the names do."""
    return Table(title=Text(title, style="bold"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_footer=show_footer)


def money(amount: Decimal | None, places: int) -> str:
    """`1,234.50`; an amount that would round to 0 is `<0.0001`, so that 0 means 0."""
    if amount is None:
        return UNKNOWN
    smallest = Decimal(1).scaleb(-places)
    if amount and abs(amount) < smallest / 2:
        return f"<{smallest}"
    return f"{amount:,.{places}f}"


def duration(ns: int | None) -> str:
    if ns is None:
        return UNKNOWN
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)):
        if ns >= size:
            amount = ns / size
            return f"{amount:.{0 if amount >= 100 else 1 if amount >= 10 else 2}f} {unit}"
    return f"{ns} ns"


def plain(name: str) -> str:
    """A name that came from outside: what a terminal could act on is replaced."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)


def iso(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
