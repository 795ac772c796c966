"""What an import did, for people and machines."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from pipeline.command import Command
from pipeline.errors import BadData
from pipeline.serving.instance import live_endpoint

NAMES_MAX = 1_000  # different tenants or models that are counted by name
NAMES_SHOWN = 10
OTHERS = "(others)"


@dataclass
class Summary:
    records: Counter[str] = field(default_factory=Counter)  # by kind
    left_out: Counter[str] = field(default_factory=Counter)  # rows that tell of something else than a call, by what
    tenants: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    rejected: int = 0
    first_rejected: str = ""  # file:line: why
    too_old: int = 0
    from_ns: int | None = None
    to_ns: int | None = None
    rejected_files: list[str] = field(default_factory=list)
    resumed: dict[str, int] = field(default_factory=dict)  # file -> line at which this run began

    def take(self, kind: str, started_ns: int, tenant: str, model: str) -> None:
        self.records[kind] += 1
        _count(self.tenants, tenant or "unknown")
        _count(self.models, model or "unknown")
        self.from_ns = started_ns if self.from_ns is None else min(self.from_ns, started_ns)
        self.to_ns = started_ns if self.to_ns is None else max(self.to_ns, started_ns)

    def reject(self, file: str, line: int, why: str) -> None:
        self.rejected += 1
        self.first_rejected = self.first_rejected or f"{file}:{line}: {why}"

    def as_dict(self, dry_run: bool) -> dict[str, Any]:
        return {
            "dry_run": dry_run,
            "records": dict(self.records),
            "left_out": dict(self.left_out),
            "rejected": self.rejected,
            "too_old": self.too_old,
            "rejected_files": self.rejected_files,
            "from": _time(self.from_ns),
            "to": _time(self.to_ns),
            "tenants": dict(self.tenants),
            "models": dict(self.models),
            "resumed": self.resumed,
        }

    def show(self, command: Command, dry_run: bool) -> None:
        """Raises BadData (exit 4) after that where rows were rejected."""
        if command.as_json:
            command.print_json(self.as_dict(dry_run))
        else:
            self._render(command.out, dry_run)
            if self.records and not dry_run and live_endpoint(command.data) is None:
                command.out.print("they wait in the log until 'tokenpath up' or 'tokenpath load' runs", markup=False, highlight=False)
        if self.rejected:
            where = f"; they are kept in {', '.join(self.rejected_files)}" if self.rejected_files else ""
            raise BadData("rejected", f"{self.rejected:,} rows cannot be imported{where}. The first: {self.first_rejected}")

    def _render(self, out: Console, dry_run: bool) -> None:
        for file, line in self.resumed.items():
            out.print(f"{file}: goes on at line {line} (--from-beginning reads it again)", markup=False, highlight=False)
        if not self.records:
            out.print("no new records" if not self.rejected else "no records", markup=False)
        else:
            kinds = ", ".join(f"{count:,} of {kind}" for kind, count in self.records.most_common())
            verb = "would be imported" if dry_run else "imported"
            out.print(f"{self.records.total():,} records {verb}: {kinds}", markup=False, highlight=False)
            out.print(f"begun between {_time(self.from_ns)} and {_time(self.to_ns)}", markup=False, highlight=False)
            out.print(_table("tenant", self.tenants))
            out.print(_table("model", self.models))
        if self.too_old:
            out.print(f"{self.too_old:,} rows are older than the store goes back and were rejected", markup=False, highlight=False)
        for what, count in self.left_out.most_common():
            out.print(f"{count:,} rows left out: {what}", markup=False, highlight=False)


def _table(name: str, counts: Counter[str]) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column(name, overflow="fold")
    table.add_column("records", justify="right")
    for key, count in counts.most_common(NAMES_SHOWN):
        table.add_row(key, f"{count:,}")
    if len(counts) > NAMES_SHOWN:
        table.add_row(f"{len(counts) - NAMES_SHOWN:,} more", f"{counts.total() - sum(n for _, n in counts.most_common(NAMES_SHOWN)):,}")
    return table


def _count(counts: Counter[str], name: str) -> None:
    counts[name if name in counts or len(counts) < NAMES_MAX else OTHERS] += 1


def _time(ns: int | None) -> str | None:
    return None if ns is None else datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
