"""`tokenpath`: the one place that puts the packages together. Every command imports what it needs when it runs, so that help is quick."""

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pipeline.command import Command, guarded, prepare
from pipeline.errors import EXIT_FAILED, CheckFailed, ConfigurationError, DependencyDown

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Follows every token of an LLM service from request to bill, and shows where it got slow and what that cost.",
)
export_app = typer.Typer(no_args_is_help=True)
letters_app = typer.Typer(no_args_is_help=True)
dashboards_app = typer.Typer(no_args_is_help=True)
keys_app = typer.Typer(no_args_is_help=True)
app.add_typer(export_app, name="export", help="Files for finance systems.")
app.add_typer(letters_app, name="dead-letters", help="Messages that could not be decoded.")
app.add_typer(dashboards_app, name="dashboards", help="Grafana dashboards.")
app.add_typer(keys_app, name="keys", help="Keys of senders, readers and administrators.")

Config = Annotated[
    Path | None, typer.Option("--config", help="Directory of tokenpath.toml and its neighbours (./tokenpath.d, else the packaged example).")
]
Data = Annotated[Path | None, typer.Option("--data", help="Directory of the embedded store and log (./tokenpath-data).")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Log what is done.")]
From = Annotated[str | None, typer.Option("--from", metavar="TIME", help="UTC: 2026-11-30 or 2026-11-30T10:00:00Z.")]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="UTC, exclusive.")]


def main() -> None:
    sys.exit(guarded(app))


@app.command()
def up(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    no_viewer: Annotated[bool, typer.Option("--no-viewer", help="Without the web page.")] = False,
) -> None:
    """Run everything on this machine until stopped: receivers, loader, attribution, viewer, ClickHouse's HTTP interface."""
    from pipeline.serving.up import run_up

    command = prepare(config, data, as_json, verbose)
    pages = None if no_viewer else _pages
    say = partial(_say_where, command, with_pages=pages is not None)
    run_up(command, _receive, _counters(), pages, _stop_on_signals(), say, _scrape)


@app.command()
def receive(config: Config = None, data: Data = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Run only the OTLP receivers, writing to the log."""
    from pipeline.serving.processes import run_receivers

    command = prepare(config, data, as_json, verbose)
    run_receivers(command, _receive, _counters(), _stop_on_signals())


@app.command()
def scrape(config: Config = None, data: Data = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Run only the scraper of the [[scrape]] endpoints, writing to the log."""
    from pipeline.serving.processes import run_scraper

    command = prepare(config, data, as_json, verbose)
    run_scraper(command, _scrape, _counters(), _stop_on_signals())


@app.command()
def demo(
    config: Config = None,
    as_json: Json = False,
    verbose: Verbose = False,
    seed: Annotated[int, typer.Option(help="Another seed is another day in the cluster.")] = 7,
    out: Annotated[Path, typer.Option(help="Where data, report and bill are written; emptied first.")] = Path(".demo"),
    stay: Annotated[bool, typer.Option("--stay", help="Keep running with the page until stopped (as when stdin is a terminal).")] = False,
) -> None:
    """The whole main job on a modelled cluster: telemetry in over OTLP, dashboard, report and bill out, checked against the truth."""
    from collectors.workload.options import ReplayOptions
    from collectors.workload.replay import replay as run_replay
    from pipeline.configuration.versions import EXAMPLE
    from pipeline.demo.run import Demo

    command = prepare(config or EXAMPLE, None, as_json, verbose)  # not ./tokenpath.d, which knows other replicas

    def send(targets: tuple[str, ...], start_ns: int, truth: Path, progress: Any) -> int:
        with _replay_errors():
            return run_replay(ReplayOptions(start_ns=start_ns, seed=seed, to=targets, truth_dir=truth), progress).to_ns

    Demo(command, out.absolute(), Path.cwd(), send, _receive, _counters(), _pages, stay or sys.stdin.isatty(), _stop_on_signals()).run()


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="Request trace: Mooncake JSONL (also .gz) or Azure CSV.")],
    to: Annotated[list[str], typer.Option("--to", help="grpc://host:port, http://host:port or file:DIR; may be given more than once.")],
    config: Config = None,
    as_json: Json = False,
    verbose: Verbose = False,
    format: Annotated[Literal["mooncake", "azure"], typer.Option(help="Format of the trace.")] = "mooncake",
    replicas: Annotated[int, typer.Option(help="Engines of the modelled cluster.")] = 4,
    models: Annotated[str | None, typer.Option(help="Names, separated by commas.")] = None,
    tenants: Annotated[str | None, typer.Option(help="Names, separated by commas.")] = None,
    routing: Annotated[Literal["prefix_aware", "round_robin"], typer.Option(help="How the router chooses a replica.")] = "prefix_aware",
    emit: Annotated[Literal["all", "vllm"], typer.Option(help="Spans of all stages, or only what vLLM emits.")] = "all",
    start: Annotated[str | None, typer.Option(metavar="TIME", help="Time of the trace's beginning; two hours ago, on the hour.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed and file: same spans.")] = 7,
    truth: Annotated[Path | None, typer.Option(help="Directory for what really happened.")] = None,
    limit: Annotated[int | None, typer.Option(help="First N requests only.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Write OTLP bytes without the SDK.")] = False,
    key: Annotated[str | None, typer.Option(envvar="TOKENPATH_KEY", help="Ingest key.")] = None,
) -> None:
    """Send a request trace through a modelled cluster and emit its telemetry as OTLP."""
    from pydantic import SecretStr, ValidationError

    from collectors.workload.options import ReplayOptions
    from collectors.workload.replay import replay as run_replay

    command = prepare(config, None, as_json, verbose)
    wanted: dict[str, Any] = {
        "file": file,
        "format": format,
        "replicas": replicas,
        "routing": routing,
        "emit": emit,
        "start_ns": int(_time("--start", start, _two_hours_ago()).timestamp()) * 10**9,
        "seed": seed,
        "to": tuple(to),
        "via": "bytes" if fast else "sdk",
        "truth_dir": truth,
        "limit": limit,
        "key": SecretStr(key) if key else None,
    }
    wanted |= {name: tuple(text.split(",")) for name, text in (("models", models), ("tenants", tenants)) if text}
    try:
        options = ReplayOptions(**wanted)
    except ValidationError as error:
        raise ConfigurationError("; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())) from error
    with _replay_errors(), _progress(command, "requests") as step:
        summary = run_replay(options, step)
    if as_json:
        command.print_json(summary.model_dump(mode="json"))
    else:
        command.out.print(*(f"{name.replace('_', ' ')}: {value}" for name, value in summary.model_dump(mode="json").items()), sep="\n")


@app.command()
def migrate(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 if something is missing.")] = False,
) -> None:
    """Bring the store's tables up to date."""
    from pipeline.configuration.versions import store_configuration
    from pipeline.serving.instance import store_for_command
    from pipeline.store import migrate as migrations

    command = prepare(config, data, as_json, verbose)
    with store_for_command(command.settings.store, command.data) as store:
        missing = migrations.missing(store) if check else migrations.migrate(store)
        if not check:
            store_configuration(store, command.configuration, datetime.now(UTC))
    if as_json:
        command.print_json({"pending" if check else "applied": missing})
    else:
        command.out.print("\n".join(missing) if missing else "up to date")
    if check and missing:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def load(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    once: Annotated[bool, typer.Option("--once", help="Stop at the end of the log.")] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Read the log again from its first record; nothing is doubled.")
    ] = False,
) -> None:
    """Carry spans and metrics from the log into the store."""
    from pipeline.serving.processes import run_loader

    command = prepare(config, data, as_json, verbose)
    loaded = run_loader(command, once, from_beginning, _stop_on_signals())
    if as_json:
        command.print_json(loaded)
    else:
        command.out.print(f"{loaded['messages']} messages with {loaded['spans']} spans loaded, {loaded['dead_letters']} dead letters")


@app.command("import")
def import_records(
    file: Annotated[list[Path], typer.Argument(help="Records as JSON lines, a JSON array or CSV; also .gz.")],
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    format: Annotated[
        Literal["", "dynamo", "sglang", "litellm", "envoy"], typer.Option(help="Whose records they are; default: what each row shows.")
    ] = "",
    principal: Annotated[str, typer.Option(help="Who wrote them: platform or tenant/<id>.")] = "platform",
    service: Annotated[str, typer.Option(help="service.name of the process that wrote them, as the inventory knows it.")] = "",
    rejected_dir: Annotated[Path | None, typer.Option(help="Where rows that cannot be read are kept; default: beside each file.")] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Also what was imported before; nothing is doubled.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and say what would be imported, change nothing.")] = False,
) -> None:
    """Bring in per-request records of Dynamo, SGLang, LiteLLM or Envoy AI Gateway. Exit 4 if rows were rejected."""
    from collectors.records.imported import read_records
    from pipeline.importing.command import ImportRequest, run_import

    command = prepare(config, data, as_json, verbose)
    request = ImportRequest(tuple(file), format, principal, service, rejected_dir, from_beginning, dry_run)
    resource = {"service.name": service} if service else {}
    keep_content = command.settings.receive.keep_content

    def read(stream: Any, offset: int, line: int) -> Iterator[Any]:
        return read_records(stream, offset, line, format, resource, keep_content)

    with _progress(command, "bytes") as step:
        summary = run_import(command, request, read, step)
    summary.show(command, dry_run)


@app.command()
def attribute(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    from_time: From = None,
    to_time: To = None,
    provisional: Annotated[bool, typer.Option("--provisional", help="Also windows that are still open.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Beside a running 'up': wait for the result.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Keep attributing until stopped, as 'up' does.")] = False,
) -> None:
    """Compute requests, costs and latencies of windows. Without a range: what is due."""
    from pipeline.attribution import on_request

    command = prepare(config, data, as_json, verbose)
    if follow:
        on_request.follow(command, _stop_on_signals())
        return
    bounds = None
    if from_time or to_time:
        bounds = (_time("--from", from_time, None), _time("--to", to_time, datetime.now(UTC)))
    with _progress(command, "runs") as step:
        runs = on_request.once(command, bounds, provisional, wait, step)
    if as_json:
        command.print_json({"runs": runs})
    elif runs is None:
        command.out.print("accepted; 'tokenpath status' shows when it is done")
    else:
        command.out.print(*(on_request.line(run) for run in runs) if runs else ["nothing is due"], sep="\n")


@app.command()
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
    query = ReportQuery(
        _time("--from", from_time, first), _time("--to", to_time, last), by, tenant, model, _time("--as-of", as_of, None) if as_of else None
    )
    destination = csv.absolute() if csv else None  # the embedded engine changes the working directory
    with _reading(command) as store:
        built = build_report(store, query, _dead_letters(command))
    if destination:
        destination.write_text(to_csv(built), encoding="utf-8", newline="")
    if as_json:
        print(to_json(built), file=command.out.file)
    else:
        render(built, command.out)
    if built.conservation.difference_atoms != "0":
        raise CheckFailed(f"pools and ledger differ by {built.conservation.difference_atoms} atoms: do not bill these figures")


@app.command()
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
        name: _time(f"--{name.replace('_', '-')}", text, None) if text else None
        for name, text in (
            ("from", from_time), ("to", to_time), ("as_of", as_of),
            ("against_from", against_from), ("against_to", against_to), ("against_as_of", against_as_of),
        )
    }  # fmt: skip
    before, after = periods(times, datetime.now(UTC))
    with _reading(command) as store:
        found = compare(store, before, after)
    if as_json:
        print(to_json(found), file=command.out.file)
    else:
        render(found, command.out)


@app.command("what-if")
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
        hit_ratio=_decimal("--hit-ratio", hit_ratio),
        gpu=gpu,
        precision=precision,
        usd_per_gpu_hour=_decimal("--usd-per-gpu-hour", usd_per_gpu_hour),
        ttft_ms=_decimal("--ttft-ms", ttft_ms),
        tpot_ms=_decimal("--tpot-ms", tpot_ms),
        e2e_ms=_decimal("--e2e-ms", e2e_ms),
        remove_idle=without_idle,
        headroom=_decimal("--headroom", headroom) or Decimal(0),
    )
    first, last = month_to_date(datetime.now(UTC))
    query = ReportQuery(_time("--from", from_time, first), _time("--to", to_time, last))
    with _reading(command) as store:
        found = ask(store, query, scenario)
    if as_json:
        print(to_json(found), file=command.out.file)
    else:
        render(found, command.out)


@app.command()
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
    query = ReportQuery(_time("--from", from_time, first), _time("--to", to_time, last), tenant=tenant)
    with _reading(command) as store:
        found = read_tasks(store, query, command.settings.attribution.max_attempt_seconds)
    if as_json:
        print(to_json(found), file=command.out.file)
    else:
        render(found, limit, command.out)


@app.command()
def status(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    quality: Annotated[bool, typer.Option("--quality", help="Also what limits the trust in the figures of the last 30 days.")] = False,
) -> None:
    """Lag, dead letters, freshness, windows, conservation. Exit 1 if conservation is broken or the loader stands."""
    from pipeline.reporting.report import ReportQuery, build_report
    from pipeline.reporting.status import build_status, render, to_json
    from pipeline.reporting.table import quality_lines
    from pipeline.serving.processes import loader_stands, positions

    command = prepare(config, data, as_json, verbose)
    now = datetime.now(UTC)
    seen, letters = positions(command.settings), _dead_letters(command)
    stands = loader_stands(command.settings, seen)
    with _reading(command) as store:
        found = build_status(store, seen, letters, stands)
        recent = build_report(store, ReportQuery(now - timedelta(days=30), now), letters) if quality else None
    if as_json:
        print(to_json(found, recent.data_quality if recent else None), file=command.out.file)
    else:
        render(found, command.out)
        for line in quality_lines(recent) if recent else ():
            command.out.print(line, markup=False, highlight=False)
    if not found.healthy:
        raise typer.Exit(EXIT_FAILED)


@export_app.command("focus")
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
    with _reading(command) as store:
        check_conserved(store)
        written = write(store, month, destination, provider=command.configuration.prices.provider, version=version)
    if as_json:
        command.print_json(written.as_dict())
    else:
        command.out.print(written.text(), markup=False, highlight=False)


@letters_app.command("list")
def dead_letters_list(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    limit: Annotated[int, typer.Option(min=1, help="The newest, at most this many.")] = 50,
    reason: Annotated[str, typer.Option(help="Only those with this reason.")] = "",
) -> None:
    """Show messages that could not be decoded, newest last."""
    from pipeline.loading.dead_letter_commands import show

    show(prepare(config, data, as_json, verbose), limit, reason)


@letters_app.command("replay")
def dead_letters_replay(
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
    verbose: Verbose = False,
    limit: Annotated[int, typer.Option(min=1, help="The oldest, at most this many.")] = 1000,
    reason: Annotated[str, typer.Option(help="Only those with this reason.")] = "",
) -> None:
    """Put dead letters back into their topics, for instance after an update that can read them."""
    from pipeline.loading.dead_letter_commands import send_again

    send_again(prepare(config, data, as_json, verbose), limit, reason)


@dashboards_app.command("build")
def dashboards_build(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if a file differs.")] = False, as_json: Json = False
) -> None:
    """Write the committed Grafana JSON from the definitions."""
    from dashboards.build import build, outdated

    names = outdated() if check else [path.name for path in build()]
    if as_json:
        typer.echo(json.dumps({"outdated" if check else "written": names}))
    else:
        typer.echo("\n".join(names) if names else "up to date")
    if check and names:
        raise typer.Exit(EXIT_FAILED)


@dashboards_app.command("publish")
def dashboards_publish(
    url: Annotated[str, typer.Option(help="Grafana's address.")],
    token_env: Annotated[str, typer.Option(help="Environment variable with a service account token.")] = "GRAFANA_TOKEN",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check server, token and data source.")] = False,
    as_json: Json = False,
) -> None:
    """Create or update our dashboards in a running Grafana."""
    import os

    from dashboards.publish import PublishError, publish
    from dashboards.viewer import DASHBOARDS

    token = os.environ.get(token_env)
    if not token:
        raise ConfigurationError(f"{token_env} is not set: put the token of a Grafana service account with the Editor role into it")
    try:
        published = [
            (done.uid, done.title, "" if dry_run else url.rstrip("/") + done.url) for done in publish(url, token, DASHBOARDS, dry_run)
        ]
    except PublishError as error:
        raise CheckFailed(str(error)) from error
    if as_json:
        typer.echo(json.dumps({"dashboards": [{"uid": uid, "title": title, "url": at or None} for uid, title, at in published]}))
    else:
        typer.echo("\n".join(f"{title}: {at or 'ready to publish'}" for _, title, at in published))


@keys_app.command("new")
def keys_new(
    name: Annotated[str, typer.Argument(help="What the key is for, such as edge-gateway.")],
    principal: Annotated[str, typer.Option(help="platform or tenant/<id>.")] = "platform",
    may: Annotated[str, typer.Option(help="ingest, read, admin; separated by commas.")] = "ingest",
    as_json: Json = False,
) -> None:
    """Make a key. It is shown once; the configuration holds its hash."""
    import secrets

    from pydantic import ValidationError

    from schemas.keys import hash_key
    from schemas.settings import KeySettings

    key = secrets.token_urlsafe(32)
    try:
        made = KeySettings.model_validate({"name": name, "sha256": hash_key(key), "principal": principal, "may": tuple(may.split(","))})
    except ValidationError as error:
        raise ConfigurationError("; ".join(f"{e['loc'][0]}: {e['msg']}" for e in error.errors())) from error
    if as_json:
        typer.echo(json.dumps({"key": key, **made.model_dump(mode="json")}))
        return
    rights = ", ".join(f'"{right}"' for right in made.may)
    typer.echo(f"key: {key}\n\nAdd to tokenpath.toml:\n")
    typer.echo(f'[[key]]\nname = "{made.name}"\nsha256 = "{made.sha256}"\nprincipal = "{made.principal}"\nmay = [{rights}]')


def _receive(settings: Any, log: Any, keys: Any, counters: Any) -> list[Any]:
    """Both OTLP receivers, listening. Raises ConfigurationError when an address cannot be used."""
    import time

    from collectors.listen import CannotListen
    from collectors.otlp_grpc import serve_grpc
    from collectors.otlp_http import serve_http

    receivers: list[Any] = []
    try:
        for serve in (serve_grpc, serve_http):
            receivers.append(serve(settings, log, keys, time.time_ns, counters))
    except CannotListen as error:
        for receiver in receivers:
            receiver.stop(1)
        raise ConfigurationError(str(error)) from error
    return receivers


def _scrape(settings: Any, log: Any, counters: Any) -> Any:
    """What scrapes all [[scrape]] endpoints until its event is set."""
    import time

    from collectors.scrape import Scraper

    return Scraper(settings.scrape, log, time.time_ns, counters, settings.receive.max_body_bytes).run


def _pages(query: Any) -> list[Any]:
    from dashboards.viewer import viewer_routes

    return list(viewer_routes(query))


@contextmanager
def _replay_errors() -> Iterator[None]:
    """A receiver that does not take spans is a dependency that is down; a trace or option that cannot be used is the operator's."""
    from collectors.workload.errors import SendFailed, WorkloadError

    try:
        yield
    except SendFailed as error:
        raise DependencyDown(str(error)) from error
    except WorkloadError as error:
        raise ConfigurationError(str(error)) from error


def _counters() -> Any:
    from collectors import edge, scrape
    from schemas.counters import Counters

    return Counters({**edge.COUNTERS, **scrape.COUNTERS})


def _say_where(command: Command, endpoint: Any, *, with_pages: bool) -> None:
    receive = command.settings.receive
    if command.as_json:
        command.print_json(
            {
                "pid": endpoint.pid,
                "grpc": receive.grpc,
                "http": receive.http,
                "viewer": endpoint.http if with_pages else None,
                "clickhouse_http": endpoint.clickhouse_http,
            }
        )
        return
    command.out.print(f"OTLP/gRPC on {receive.grpc}, OTLP/HTTP on {receive.http}")
    if with_pages:
        command.out.print(f"dashboards on http://{endpoint.http}/")
    command.out.print("stop with Ctrl-C", style="dim")


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _progress(command: Command, unit: str) -> Any:
    from pipeline.progress import progress

    return progress(command.err, unit)


def _reading(command: Command) -> Any:
    from pipeline.serving.instance import migrated_store

    return migrated_store(command.settings.store, command.data)


def _dead_letters(command: Command) -> int | None:
    from pipeline.serving.processes import dead_letter_count

    return dead_letter_count(command.settings)


def _two_hours_ago() -> datetime:
    return (datetime.now(UTC) - timedelta(hours=2)).replace(minute=0, second=0, microsecond=0)


def _decimal(option: str, text: str | None) -> Decimal | None:
    """A plain number. Raises ConfigurationError."""
    try:
        number = None if text is None else Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if number is not None and not number.is_finite():
        raise ConfigurationError(f"{option} {text!r} is no number")
    return number


def _time(option: str, text: str | None, otherwise: datetime | None) -> datetime:
    """An ISO time; without a zone it is UTC. Raises ConfigurationError."""
    if text is None:
        if otherwise is None:
            raise ConfigurationError(f"{option} is missing: give a time such as 2026-11-30T10:00:00Z")
        return otherwise
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"{option} {text!r} is no time: write 2026-11-30 or 2026-11-30T10:00:00Z") from error
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at
