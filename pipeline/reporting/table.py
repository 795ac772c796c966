"""The report for people: three tables that fit 100 columns, what nobody answers for, and the reconciliation."""

from collections.abc import Callable, Sequence
from decimal import Decimal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.reporting.shown import UNKNOWN, blank_table, duration, iso, money, plain
from schemas.report import Blamed, Figures, Group, Quantiles, Range, Report
from schemas.usage import SHARED_CLASSES

FEW_REQUESTS = 100  # below, a tail quantile rests on a single request
NAMES_SHOWN_MAX = 8
LEAKS_SHOWN_MAX = 12
MEASURE_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "end to end"}
CLASS_NAMES = {
    "unattributed": "unattributed (busy, but no span says for whom)",
    "platform_waste": "platform waste (load, crashes, retries, preemption)",
    "idle": "idle",
    "idle_reserved": "idle, reserved",
    "overhead": "overhead",
}

Cell = Callable[[Figures], str]


def render(report: Report, console: Console) -> None:
    """Prints the report. Names of tenants and models are data: no markup, no control characters."""
    if not report.windows:
        _render_empty(report, console)
        return
    _render_head(report, console)
    rows = [(_label(report, group), group.figures) for group in report.groups]
    whole = [*rows, ("Total", report.totals)]
    currency = report.currency or "no currency"
    for title, columns in (
        (f"Cost ({currency})", _cost_columns([figures for _, figures in whole])),
        (f"Books and tokens ({currency})", _token_columns([figures for _, figures in whole])),
        ("Latency", LATENCY_COLUMNS),
    ):
        console.print(_table(title, report.by, columns, rows, report.totals))
    _render_leak(report, console)
    _render_blamed("Missed objectives", report.misses, console)
    _render_blamed("Slowest 1% of each window", report.tail, console)
    _render_unallocated(report, console)
    _render_pools(report, console)
    _render_reconciliation(report, console)
    for line in quality_lines(report):
        console.print(Text(line))


def _render_empty(report: Report, console: Console) -> None:
    console.print(Text(f"No attributed window in {_span(report.requested)}."))
    if report.available:
        first, last = iso(report.available.from_at), iso(report.available.to_at)
        console.print(Text(f"There is data from {_span(report.available)}: try --from {first} --to {last}"))
    else:
        console.print(Text("Nothing has been attributed yet: send spans, then run `tokenpath attribute` or leave `tokenpath up` running."))


def _render_head(report: Report, console: Console) -> None:
    console.print(Text(f"Tokenpath report  {_span(report.range)}", style="bold"))
    windows = "1 window" if report.windows == 1 else f"{report.windows} windows"
    facts = [f"method {report.method}", f"policy {report.useful_policy}", windows, f"configuration {(report.config_hash or UNKNOWN)[:12]}"]
    if report.as_of:
        facts.append(f"as known on {iso(report.as_of)}")
    console.print(Text(", ".join(facts), style="dim"))
    if report.range != report.requested:
        console.print(Text(f"Asked for {_span(report.requested)}; widened to whole windows.", style="dim"))
    if report.provisional_windows:
        console.print(Text(f"{report.provisional_windows} of the windows are provisional: still open, never billed.", style="yellow"))


def _cost_columns(everything: Sequence[Figures]) -> list[tuple[str, Cell]]:
    return [
        ("requests", lambda f: _count(f.requests.total)),
        _money_column("spend", everything, lambda f: f.cost.direct),
        _money_column("useful", everything, lambda f: f.cost.useful),
        _money_column("waste", everything, lambda f: f.cost.waste),
        ("waste\n%", lambda f: _percent(f.waste_ratio)),
        _money_column("per 1M\nuseful", everything, lambda f: f.cost_per_million_useful_tokens.direct),
        _money_column("per 1M\nloaded", everything, lambda f: f.cost_per_million_useful_tokens.fully_loaded),
    ]


def _token_columns(everything: Sequence[Figures]) -> list[tuple[str, Cell]]:
    return [
        _money_column("fully\nloaded", everything, lambda f: f.cost.fully_loaded),
        _money_column("charged", everything, lambda f: f.charged),
        ("input\ntokens", lambda f: _short(f.tokens.input)),
        ("output\ntokens", lambda f: _short(f.tokens.output)),
        ("useful\ntokens", lambda f: _short(f.tokens.useful)),
        ("cache\nhit %", lambda f: _percent(f.cache.hit_ratio)),
        _money_column("cache saved\n(estimate)", everything, lambda f: f.cache.saved_gross),
    ]


LATENCY_COLUMNS: list[tuple[str, Cell]] = [
    ("n", lambda f: _count(_measured(f))),
    ("TTFT\np50", lambda f: duration(f.latency.ttft_ns.p50)),
    ("TTFT\np99", lambda f: _tail(f.latency.ttft_ns)),
    ("TPOT\np99", lambda f: _tail(f.latency.tpot_ns)),
    ("end to end\np99", lambda f: _tail(f.latency.e2e_ns)),
    ("queue\np99", lambda f: _tail(f.latency.queue_ns)),
    ("SLO\nmet", lambda f: _percent(f.slo.ratio)),
]


def _table(title: str, by: str, columns: Sequence[tuple[str, Cell]], rows: Sequence[tuple[str, Figures]], totals: Figures) -> Table:
    table = blank_table(title, show_footer=len(rows) > 1)
    table.add_column(by, Text("total", style="bold"), overflow="fold", min_width=8, max_width=30)
    for name, cell in columns:
        table.add_column(name, Text(cell(totals), style="bold"), justify="right", no_wrap=True)
    for label, figures in rows:
        table.add_row(Text(label), *(Text(cell(figures)) for _, cell in columns))
    return table


def _render_unallocated(report: Report, console: Console) -> None:
    shown = [name for name in SHARED_CLASSES if _decimal(report.unallocated[name])]
    if not shown:
        return
    pools = _pools(report)
    places = _places([report.unallocated[name] for name in shown])
    table = blank_table(f"No tenant's ({report.currency or 'no currency'})")
    table.add_column("", no_wrap=True)
    table.add_column("spend", justify="right", no_wrap=True)
    table.add_column("of all\nspend", justify="right", no_wrap=True)
    for name in shown:
        amount = _decimal(report.unallocated[name])
        table.add_row(CLASS_NAMES[name], money(amount, places), _percent(float(amount / pools) if amount is not None and pools else None))
    console.print(table)


def _render_pools(report: Report, console: Console) -> None:
    if len(report.pools) < 2:
        return
    pools = _pools(report)
    places = _places(list(report.pools.values()))
    table = blank_table(f"By pool ({report.currency or 'no currency'})")
    table.add_column("", no_wrap=True)
    table.add_column("cost", justify="right", no_wrap=True)
    table.add_column("of all\ncost", justify="right", no_wrap=True)
    for name, amount in ((name, _decimal(text)) for name, text in report.pools.items()):
        table.add_row(name, money(amount, places), _percent(float(amount / pools) if amount is not None and pools else None))
    console.print(table)


def _render_leak(report: Report, console: Console) -> None:
    """Cells of class and stage that bought nothing useful, the dearest first."""
    leaks = [cell for cell in report.leak if cell.cost_class != "useful"]
    if not leaks:
        return
    whole = sum((Decimal(cell.cost) for cell in report.leak), Decimal(0))
    places = _places([cell.cost for cell in leaks])
    table = blank_table(f"Where it leaks ({report.currency or 'no currency'})")
    table.add_column("class", no_wrap=True)
    table.add_column("stage", no_wrap=True)
    table.add_column("cost", justify="right", no_wrap=True)
    table.add_column("of these\ncosts", justify="right", no_wrap=True)
    for cell in leaks[:LEAKS_SHOWN_MAX]:
        amount = Decimal(cell.cost)
        table.add_row(cell.cost_class, cell.stage, money(amount, places), _percent(float(amount / whole)))
    if len(leaks) > LEAKS_SHOWN_MAX:
        rest = sum((Decimal(cell.cost) for cell in leaks[LEAKS_SHOWN_MAX:]), Decimal(0))
        table.add_row(f"{len(leaks) - LEAKS_SHOWN_MAX} more", "", money(rest, places), _percent(float(rest / whole)))
    console.print(table)


def _render_blamed(title: str, slow: Sequence[Blamed], console: Console) -> None:
    """Slow requests by the stage they are blamed on, over all tenants and models that are selected."""
    if not slow:
        return
    found: dict[tuple[str, str], list[int]] = {}
    for blamed in slow:
        entry = found.setdefault((blamed.measure, blamed.stage), [0, 0])
        entry[0] += blamed.requests
        entry[1] += blamed.excess_ns
    table = blank_table(title)
    table.add_column("measure", no_wrap=True)
    table.add_column("blamed on", no_wrap=True)
    table.add_column("requests", justify="right", no_wrap=True)
    table.add_column("more than usual\non average", justify="right", no_wrap=True)
    for (measure, stage), (requests, excess_ns) in sorted(found.items(), key=lambda x: (-x[1][0], x[0]))[:LEAKS_SHOWN_MAX]:
        table.add_row(MEASURE_NAMES[measure], stage, _count(requests), duration(excess_ns // requests) if excess_ns else UNKNOWN)
    console.print(table)


def _render_reconciliation(report: Report, console: Console) -> None:
    difference = int(report.conservation.difference_atoms)
    pools, nobody = _pools(report), sum((_decimal(amount) or Decimal(0) for amount in report.unallocated.values()), Decimal(0))
    tenants = Decimal(report.conservation.ledger_atoms).scaleb(-12) - nobody
    places = _places([str(pools)])
    parts = f"tenants {money(tenants, places)} + no tenant's {money(nobody, places)}"
    sums = f"pools {money(pools, places)} = {parts} {report.currency or ''}".rstrip()
    if difference:
        console.print(Text(f"NOT RECONCILED: {sums}, but the difference is {difference} atoms; do not bill from this", style="bold red"))
    else:
        console.print(Text(f"Reconciled: {sums}, difference 0", style="green"))


def quality_lines(report: Report) -> list[str]:
    """What limits the trust in these figures, a sentence each; empty where nothing does."""
    quality, totals = report.data_quality, report.totals
    lines = []
    few = [_label(report, group) for group in report.groups if 0 < _measured(group.figures) < FEW_REQUESTS]
    if few:
        lines.append(f"Fewer than {FEW_REQUESTS} requests, so p99 is close to the slowest one: {_names(few)}.")
    if quality.unknown_tenant_ratio:
        lines.append(f"Unknown tenant: {_percent(quality.unknown_tenant_ratio)} of requests.")
    if totals.tokens.delivered_assumed and totals.tokens.delivered:
        share = _percent(totals.tokens.delivered_assumed / totals.tokens.delivered)
        lines.append(f"Delivery only assumed: {share} of delivered tokens (the stack cannot show a client that left).")
    if totals.usage.estimated or totals.usage.unknown or totals.usage.split_unknown:
        usage = totals.usage
        lines.append(
            f"Token counts: {usage.reported} requests reported, {usage.estimated} estimated, {usage.unknown} unknown;"
            f" the cached or reasoning part of {usage.split_unknown} is unknown."
        )
    if quality.unpriced_replicas:
        lines.append(
            f"Without a price, so without a cost: {_names(quality.unpriced_replicas)}. Add them to inventory.toml and prices.toml."
        )
    if quality.unpriced_models:
        lines.append(f"Without a token price, so not charged: {_names(quality.unpriced_models)}. Add them to prices.toml.")
    if quality.rejected_spans:
        lines.append(f"Spans refused for impossible times: {quality.rejected_spans}.")
    missing = quality.unaccounted_tokens
    if missing.prompt or missing.generation:
        counts = [f"{name} {count:,}" for name, count in (("prompt", missing.prompt), ("generation", missing.generation)) if count]
        lines.append(f"Tokens that engines counted and no request shows: {', '.join(counts)} (aborted, unsampled or past the gateway).")
    if quality.left_out:
        lines.append("Spans that no request shows: " + ", ".join(f"{name} {count}" for name, count in quality.left_out.items()) + ".")
    if quality.dead_letters:
        lines.append(f"Messages in the dead letters: {quality.dead_letters}; see `tokenpath dead-letters list`.")
    if quality.flags:
        lines.append("Flagged requests: " + ", ".join(f"{name} {count}" for name, count in quality.flags.items()) + ".")
    return lines


def _money_column(name: str, everything: Sequence[Figures], pick: Callable[[Figures], str | None]) -> tuple[str, Cell]:
    places = _places([pick(figures) for figures in everything])
    return name, lambda figures: money(_decimal(pick(figures)), places)


def _places(amounts: Sequence[str | None]) -> int:
    largest = max((abs(Decimal(amount)) for amount in amounts if amount is not None), default=Decimal(0))
    return 2 if largest >= 100 or not largest else 4


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _pools(report: Report) -> Decimal:
    return Decimal(report.conservation.pools_atoms).scaleb(-12)


def _tail(quantiles: Quantiles) -> str:
    return f"{'≈' if quantiles.kind == 'sketch' else ''}{duration(quantiles.p99)}"


def _measured(figures: Figures) -> int:
    latency = figures.latency
    return max(latency.ttft_ns.n, latency.tpot_ns.n, latency.e2e_ns.n, latency.queue_ns.n)


def _count(number: int) -> str:
    return f"{number:,}"


def _short(tokens: int | None) -> str:
    if tokens is None:
        return UNKNOWN
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**4)):
        if tokens >= size:
            return f"{tokens / (1000 if unit == 'k' else size):,.2f} {unit}"
    return f"{tokens:,}"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share * 100:.1f}%"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    return ", ".join(plain(name) or "(no name)" for name in names[:NAMES_SHOWN_MAX]) + more


def _label(report: Report, group: Group) -> str:
    return f"{group.key[:10]} {group.key[11:16]}" if report.by == "hour" else plain(group.key) or "(no name)"


def _span(during: Range) -> str:
    same_day = during.from_at.date() == during.to_at.date()
    return f"{during.from_at:%Y-%m-%d %H:%M:%S} to {during.to_at:{'%H:%M:%S' if same_day else '%Y-%m-%d %H:%M:%S'}} UTC"
