"""`tokenpath`: the one place that puts the packages together. Every command imports what it needs when it runs, so that help is quick."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pipeline.command import Command, guarded, prepare
from pipeline.commands import figures, operation
from pipeline.commands.options import (
    Config,
    Data,
    Json,
    Verbose,
    progress_of,
    stop_on_signals,
    time_of,
)
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
    from pipeline.configuration.versions import DEFAULT_DIRECTORY
    from pipeline.serving.up import run_up

    of_example = config is None and not DEFAULT_DIRECTORY.is_dir()  # before the engine changes the working directory
    command = prepare(config, data, as_json, verbose)
    pages = None if no_viewer else _pages
    say = partial(_say_where, command, with_pages=pages is not None, of_example=of_example)
    run_up(command, _receive, _counters(), pages, stop_on_signals(), say, _scrape)


@app.command()
def receive(config: Config = None, data: Data = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Run only the OTLP receivers, writing to the log."""
    from pipeline.serving.processes import run_receivers

    command = prepare(config, data, as_json, verbose)
    run_receivers(command, _receive, _counters(), stop_on_signals())


@app.command()
def scrape(config: Config = None, data: Data = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Run only the scraper of Prometheus endpoints (tokenpath.toml), writing to the log."""
    from pipeline.serving.processes import run_scraper

    command = prepare(config, data, as_json, verbose)
    run_scraper(command, _scrape, _counters(), stop_on_signals())


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

    Demo(command, out.absolute(), Path.cwd(), send, _receive, _counters(), _pages, stay or sys.stdin.isatty(), stop_on_signals()).run()


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
        "start_ns": int(time_of("--start", start, _two_hours_ago()).timestamp()) * 10**9,
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
    with _replay_errors(), progress_of(command, "requests") as step:
        summary = run_replay(options, step)
    if as_json:
        command.print_json(summary.model_dump(mode="json"))
    else:
        command.out.print(*(f"{name.replace('_', ' ')}: {value}" for name, value in summary.model_dump(mode="json").items()), sep="\n")


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

    with progress_of(command, "bytes") as step:
        summary = run_import(command, request, read, step)
    summary.show(command, dry_run)


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


for _name, _command in (
    ("migrate", operation.migrate),
    ("load", operation.load),
    ("attribute", operation.attribute),
    ("report", figures.report),
    ("explain", figures.explain),
    ("what-if", figures.what_if),
    ("tasks", figures.tasks),
    ("status", figures.status),
):
    app.command(_name)(_command)
export_app.command("focus")(figures.export_focus)
letters_app.command("list")(operation.dead_letters_list)
letters_app.command("replay")(operation.dead_letters_replay)
keys_app.command("new")(operation.keys_new)


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


def _say_where(command: Command, endpoint: Any, *, with_pages: bool, of_example: bool) -> None:
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
    if of_example:
        command.out.print("replicas and prices are those of the packaged example: copy it to ./tokenpath.d and edit it", style="yellow")
    command.out.print("stop with Ctrl-C", style="dim")


def _two_hours_ago() -> datetime:
    return (datetime.now(UTC) - timedelta(hours=2)).replace(minute=0, second=0, microsecond=0)
