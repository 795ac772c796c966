"""Commands that read the attributed tables: report, explain, what-if, tasks, status, export."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import typer

from pipeline.command import prepare
from pipeline.commands.options import Config, Data, From, Json, To, Verbose, dead_letters, decimal_of, reading, time_of
from pipeline.errors import EXIT_FAILED, CheckFailed


def report(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    from_time: From = None,
    to_time: To = None,
    tenant: Annotated[str, typer.Option(help="Only this tenant.")] = "",
    model: Annotated[str, typer.Option(help="Only this model.")] = "",
    by: Annotated[Literal["tenant", "model", "hour"], typer.Option(help="One line for each.")] = "tenant",
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="As it was known at that time.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the figures to this file, one line for each.")] = None,
) -> None:
    """Spend, cost per million useful tokens, waste, cache savings and latency. Default: the month to date."""
    from pipeline.reporting.files import to_csv, to_json
    from pipeline.reporting.report import ReportQuery, build_report, month_to_date
    from pipeline.reporting.table import render

    command = prepare(config, data, as_json, verbose)
    first, last = month_to_date(datetime.now(UTC))
    known = time_of("--as-of", as_of, None) if as_of else None
    query = ReportQuery(time_of("--from", from_time, first), time_of("--to", to_time, last), by, tenant, model, known)
    destination = csv.absolute() if csv else None  # the embedded engine changes the working directory
    with reading(command) as store:
        built = build_report(store, query, dead_letters(command))
    if destination:
        destination.write_text(to_csv(built), encoding="utf-8", newline="")
    if as_json:
        print(to_json(built), file=command.out.file)
    else:
        render(built, command.out)
    if built.conservation.difference_atoms != "0":
        raise CheckFailed(f"pools and ledger differ by {built.conservation.difference_atoms} atoms: do not bill these figures")


def explain(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    from_time: From = None,
    to_time: To = None,
    against_from: Annotated[str | None, typer.Option(metavar="TIME", help="Begin of the period to compare with.")] = None,
    against_to: Annotated[str | None, typer.Option(metavar="TIME", help="Its end. Default: just before --from.")] = None,
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="As it was known at that time.")] = None,
    against_as_of: Annotated[str | None, typer.Option(metavar="TIME", help="The other period as it was known at that time.")] = None,
) -> None:
    """Why a period (default: the month to date) cost more or less than the one before it, in parts that sum to the difference.

    With only --against-as-of: than the same period as it was known then.
    """
    from pipeline.reporting.explain import explain as compare
    from pipeline.reporting.explain import periods, render, to_json

    command = prepare(config, data, as_json, verbose)
    times = {
        name: time_of(f"--{name.replace('_', '-')}", text, None) if text else None
        for name, text in (
            ("from", from_time), ("to", to_time), ("as_of", as_of),
            ("against_from", against_from), ("against_to", against_to), ("against_as_of", against_as_of),
        )
    }  # fmt: skip
    before, after = periods(times, datetime.now(UTC))
    with reading(command) as store:
        found = compare(store, before, after)
    if as_json:
        print(to_json(found), file=command.out.file)
    else:
        render(found, command.out)


def what_if(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    from_time: From = None,
    to_time: To = None,
    affinity: Annotated[bool, typer.Option("--affinity", help="Every attempt finds the longest prefix that any replica had.")] = False,
    hit_ratio: Annotated[str | None, typer.Option(metavar="RATIO", help="So much of all input comes from the cache, 0 to 1.")] = None,
    gpu: Annotated[str | None, typer.Option(help="Every replica on this GPU of the catalogue.")] = None,
    precision: Annotated[Literal["bf16", "fp16", "fp8", "fp4"] | None, typer.Option(help="Weights in this precision.")] = None,
    usd_per_gpu_hour: Annotated[
        str | None, typer.Option(metavar="PRICE", help="One GPU for an hour, in the price book's currency.")
    ] = None,
    ttft_ms: Annotated[str | None, typer.Option(metavar="MS", help="Another objective for the time to first token.")] = None,
    tpot_ms: Annotated[str | None, typer.Option(metavar="MS", help="... for the time per output token.")] = None,
    e2e_ms: Annotated[str | None, typer.Option(metavar="MS", help="... for the whole answer.")] = None,
    without_idle: Annotated[bool, typer.Option("--without-idle", help="Only the replicas that the busiest window needs.")] = False,
    headroom: Annotated[str, typer.Option(metavar="RATIO", help="With --without-idle: what stays free in that window.")] = "0.2",
) -> None:
    """What the same requests (default: of the month to date) would have cost otherwise; an estimate, with its assumptions."""
    from pipeline.reporting.report import ReportQuery, month_to_date
    from pipeline.reporting.what_if_answer import Scenario, render, to_json
    from pipeline.reporting.what_if_answer import answer as ask

    command = prepare(config, data, as_json, verbose)
    scenario = Scenario(
        perfect_affinity=affinity,
        hit_ratio=decimal_of("--hit-ratio", hit_ratio),
        gpu=gpu,
        precision=precision,
        usd_per_gpu_hour=decimal_of("--usd-per-gpu-hour", usd_per_gpu_hour),
        ttft_ms=decimal_of("--ttft-ms", ttft_ms),
        tpot_ms=decimal_of("--tpot-ms", tpot_ms),
        e2e_ms=decimal_of("--e2e-ms", e2e_ms),
        remove_idle=without_idle,
        headroom=decimal_of("--headroom", headroom) or Decimal(0),
    )
    first, last = month_to_date(datetime.now(UTC))
    query = ReportQuery(time_of("--from", from_time, first), time_of("--to", to_time, last))
    with reading(command) as store:
        found = ask(store, query, scenario)
    if as_json:
        print(to_json(found), file=command.out.file)
    else:
        render(found, command.out)


def tasks(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    from_time: From = None,
    to_time: To = None,
    tenant: Annotated[str, typer.Option(help="Only this tenant.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Show so many; --json has all.")] = 20,
) -> None:
    """What agent runs and conversations cost as a whole, and how much of it was not the answer. Default: the month to date."""
    from pipeline.reporting.report import ReportQuery, month_to_date
    from pipeline.reporting.tasks import read_tasks, render, to_json

    command = prepare(config, data, as_json, verbose)
    first, last = month_to_date(datetime.now(UTC))
    query = ReportQuery(time_of("--from", from_time, first), time_of("--to", to_time, last), tenant=tenant)
    with reading(command) as store:
        found = read_tasks(store, query, command.settings.attribution.max_attempt_seconds)
    if as_json:
        print(to_json(found), file=command.out.file)
    else:
        render(found, limit, command.out)


def status(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    quality: Annotated[bool, typer.Option("--quality", help="Also what each source's spans tell and what is wrong with them.")] = False,
    from_time: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Of --quality; the last 24 hours if not given.")] = None,
    to_time: To = None,
) -> None:
    """Lag, dead letters, freshness, windows, conservation. Exit 1 if conservation is broken or the loader stands."""
    from pipeline.reporting import quality as sources
    from pipeline.reporting.report import ReportQuery
    from pipeline.reporting.status import build_status, render, to_json
    from pipeline.serving.processes import loader_stands, positions

    command = prepare(config, data, as_json, verbose)
    last = time_of("--to", to_time, datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1))
    query = ReportQuery(time_of("--from", from_time, last - timedelta(hours=24)), last)
    seen, letters = positions(command.settings), dead_letters(command)
    stands = loader_stands(command.settings, seen)
    with reading(command) as store:
        found = build_status(store, seen, letters, stands)
        told = sources.read_quality(store, query) if quality else None
    if as_json:
        print(to_json(found, sources.as_document(told) if told else None), file=command.out.file)
    else:
        render(found, command.out)
        if told:
            sources.render(told, command.out)
    if not found.healthy:
        raise typer.Exit(EXIT_FAILED)


def export_focus(
    month: Annotated[str, typer.Option(metavar="YYYY-MM", help="Billing month.")],
    out: Annotated[Path, typer.Option(help="CSV file to write.")],
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    version: Annotated[Literal["1.2"], typer.Option(help="Version of FOCUS.")] = "1.2",
) -> None:
    """FOCUS Cost and Usage rows of a month, from the price book."""
    from pipeline.billing.focus import export_focus as write
    from pipeline.reporting.status import check_conserved

    command = prepare(config, data, as_json, verbose)
    destination = out.absolute()
    with reading(command) as store:
        check_conserved(store)
        written = write(store, month, destination, provider=command.configuration.prices.provider, version=version)
    if as_json:
        command.print_json(written.as_dict())
    else:
        command.out.print(written.text(), markup=False, highlight=False)
