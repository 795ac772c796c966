"""Commands that run one step by hand: migrate, load, attribute, dead-letters, keys."""

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from pipeline.command import prepare
from pipeline.commands.options import (
    Config,
    Data,
    From,
    Json,
    To,
    Verbose,
    progress_of,
    stop_on_signals,
    time_of,
)
from pipeline.errors import EXIT_FAILED, ConfigurationError


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
    loaded = run_loader(command, once, from_beginning, stop_on_signals())
    if as_json:
        command.print_json(loaded)
    else:
        command.out.print(f"{loaded['messages']} messages with {loaded['spans']} spans loaded, {loaded['dead_letters']} dead letters")


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
        on_request.follow(command, stop_on_signals())
        return
    bounds = None
    if from_time or to_time:
        bounds = (time_of("--from", from_time, None), time_of("--to", to_time, datetime.now(UTC)))
    with progress_of(command, "runs") as step:
        runs = on_request.once(command, bounds, provisional, wait, step)
    if as_json:
        command.print_json({"runs": runs})
    elif runs is None:
        command.out.print("accepted; 'tokenpath status' shows when it is done")
    else:
        command.out.print(*(on_request.line(run) for run in runs) if runs else ["nothing is due"], sep="\n")


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
