"""How the whole path is doing: lag, dead letters, freshness, windows, conservation, sizes. Reads only; an empty store is a healthy one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.errors import CheckFailed
from pipeline.statements import statement
from pipeline.store.client import Store
from schemas.log import ReadLog

SQL = "pipeline.reporting.status_sql"
UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class LogPosition:
    """One partition: the offset that the next record will get, and the next one that the loader will read."""

    topic: str
    partition: int
    end_offset: int
    committed_offset: int

    @property
    def lag(self) -> int:
        return max(0, self.end_offset - self.committed_offset)


@dataclass(frozen=True, slots=True)
class Status:
    """CONTRACTS 5, `status --json`. None: nobody knows (no message yet, dead letters not counted)."""

    log: tuple[LogPosition, ...]
    dead_letters: int | None
    freshness_p50_ms: int | None
    freshness_p99_ms: int | None
    published: int
    provisional: int
    dirty: int
    failed: int
    difference_atoms: int
    spans: int
    bytes_per_span: float | None
    loader_stands: bool

    @property
    def healthy(self) -> bool:
        """False: conservation is broken, or the loader stands. The command ends with 1."""
        return self.difference_atoms == 0 and not self.loader_stands


def log_positions(log: ReadLog) -> tuple[LogPosition, ...]:
    """Of one consumer, in the order of topic and partition. Raises LogUnavailable."""
    ends, committed = log.end_offsets(), log.committed()
    known = sorted({*ends, *committed}, key=lambda where: (where.topic, where.partition))
    return tuple(LogPosition(where.topic, where.partition, ends.get(where, 0), committed.get(where, 0)) for where in known)


def build_status(store: Store, positions: Sequence[LogPosition], dead_letters: int | None, loader_stands: bool = False) -> Status:
    """Reads the store. `loader_stands`: records wait, and the loader stopped (too many dead letters) or does not run."""
    windows, fresh, sizes = (store.query(statement(SQL, name)).dicts()[0] for name in ("windows", "freshness", "sizes"))
    return Status(
        log=tuple(positions),
        dead_letters=dead_letters,
        freshness_p50_ms=fresh["p50"] if fresh["n"] else None,
        freshness_p99_ms=fresh["p99"] if fresh["n"] else None,
        published=windows["published"],
        provisional=windows["provisional"],
        dirty=windows["dirty"],
        failed=windows["failed"],
        difference_atoms=store.query(statement(SQL, "conservation")).scalar(),
        spans=sizes["spans"],
        bytes_per_span=sizes["bytes"] / sizes["spans"] if sizes["spans"] else None,
        loader_stands=loader_stands,
    )


def check_conserved(store: Store) -> None:
    """Before anything is billed. Raises CheckFailed when pools and ledger differ in a published window."""
    difference = store.query(statement(SQL, "conservation")).scalar()
    if difference:
        raise CheckFailed(
            f"pools and ledger differ by {difference} atoms, so nothing is billed: run `tokenpath attribute` again for the month"
        )


def to_json(status: Status, quality: Mapping[str, Any] | None = None) -> str:
    """`quality`: the document of pipeline/reporting/quality.py."""
    document: dict[str, Any] = {
        "log": [
            {
                "topic": position.topic,
                "partition": position.partition,
                "end_offset": position.end_offset,
                "committed_offset": position.committed_offset,
                "lag": position.lag,
            }
            for position in status.log
        ],
        "dead_letters": status.dead_letters,
        "freshness_ms": {"p50": status.freshness_p50_ms, "p99": status.freshness_p99_ms},
        "windows": {
            "published": status.published,
            "provisional": status.provisional,
            "dirty": status.dirty,
            "failed": status.failed,
        },
        "conservation": {"difference_atoms": str(status.difference_atoms)},
        "store": {"spans": status.spans, "bytes_per_span": status.bytes_per_span},
        "loader_stands": status.loader_stands,
    }
    if quality:
        document["quality"] = quality
    return json.dumps(document, indent=1)


def render(status: Status, console: Console) -> None:
    """For people: what is wrong stands in red, and says what to do."""
    if status.log:
        table = Table(title=Text("Log", style="bold"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("topic")
        for name in ("partition", "end", "loaded", "lag"):
            table.add_column(name, justify="right", no_wrap=True)
        for position in status.log:
            numbers = (position.partition, position.end_offset, position.committed_offset, position.lag)
            table.add_row(Text(position.topic), *(f"{number:,}" for number in numbers))
        console.print(table)
    for text, style in _lines(status):
        console.print(Text(text, style=style))


def _lines(status: Status) -> list[tuple[str, str]]:
    letters = UNKNOWN if status.dead_letters is None else f"{status.dead_letters:,}"
    bytes_per_span = UNKNOWN if status.bytes_per_span is None else f"{status.bytes_per_span:.1f}"
    fresh = f"p50 {_ms(status.freshness_p50_ms)}, p99 {_ms(status.freshness_p99_ms)}"
    windows = f"{status.published} published, {status.provisional} provisional, {status.dirty} dirty, {status.failed} failed"
    lines = [
        (
            f"Dead letters:  {letters}" + ("; see `tokenpath dead-letters list`" if status.dead_letters else ""),
            "yellow" if status.dead_letters else "",
        ),
        (f"Freshness:     {fresh} from receipt to queryable", ""),
        (f"Windows:       {windows}", "yellow" if status.failed else ""),
        (f"Store:         {status.spans:,} spans, {bytes_per_span} bytes a span", ""),
    ]
    if status.difference_atoms:
        lines.append(
            (f"Conservation:  BROKEN by {status.difference_atoms} atoms; do not bill; run `tokenpath attribute` for the month", "bold red")
        )
    elif status.published or status.provisional:
        lines.append(("Conservation:  pools = ledger, difference 0", "green"))
    else:
        lines.append(("Conservation:  nothing attributed yet; send spans, then `tokenpath attribute`, or leave `tokenpath up` running", ""))
    if status.loader_stands:
        lines.append(("Loader:        STANDS; see its log, `tokenpath dead-letters list`, then start it again", "bold red"))
    return lines


def _ms(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,} ms"
