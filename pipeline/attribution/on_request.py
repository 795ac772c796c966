"""Attribution when a person asks for it: `tokenpath attribute` runs here, or asks a running `up`, which holds the store."""

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from pipeline.attribution.windows import Attributor, attribute_range
from pipeline.command import Command
from pipeline.configuration.versions import store_configuration
from pipeline.errors import CheckFailed, ConfigurationError, DependencyDown
from pipeline.serving.instance import Endpoint, live_endpoint, store_for_command
from pipeline.store.client import Store
from pipeline.store.migrate import migrate
from schemas.settings import AttributionSettings

Bounds = tuple[datetime, datetime]
Run = Mapping[str, Any]
WAIT_SECONDS = 3600


def once(command: Command, bounds: Bounds | None, provisional: bool, wait: bool, progress: Callable[[int, int], None]) -> list[Run] | None:
    """Runs what `bounds` touches, or what is due. None: a running `up` took it over and does it now."""
    endpoint = live_endpoint(command.data) if command.settings.store.url.startswith("chdb:") else None
    if endpoint:
        if bounds is None:
            raise ConfigurationError(
                "'tokenpath up' is running and attributes what is due by itself; give --from and --to to run windows again"
            )
        return _ask(endpoint, bounds, provisional, wait)
    with store_for_command(command.settings.store, command.data) as store:
        migrate(store)
        config_hash = store_configuration(store, command.configuration, datetime.now(UTC))
        settings = command.settings.attribution
        if bounds is None:
            runs = Attributor(store, settings, config_hash, progress=progress).step()
        else:
            first, last = (int(at.timestamp()) * 10**9 for at in bounds)
            runs = attribute_range(store, settings, config_hash, first, last, provisional=provisional, progress=progress)
        return [as_json(run) for run in runs]


def follow(command: Command, stop: threading.Event) -> None:
    """The attribution process of a cluster: what is due, until stopped."""
    with store_for_command(command.settings.store, command.data) as store:
        migrate(store)
        config_hash = store_configuration(store, command.configuration, datetime.now(UTC))
        Attributor(store, command.settings.attribution, config_hash).run(stop)


class Requested:
    """What a running `up` is asked to attribute, one request after the other, each on a handle of its own.

    `close` waits for the run that is under way: the engine must not end below a statement.
    """

    def __init__(self, store: Store, settings: AttributionSettings, config_hash: str) -> None:
        self._store, self._settings, self._config_hash = store, settings, config_hash
        self._stop, self._turn = threading.Event(), threading.Lock()

    def run(self, first: datetime, last: datetime, provisional: bool) -> list[Run]:
        """The runs that were done; none once it is closed."""
        bounds = (int(first.timestamp()) * 10**9, int(last.timestamp()) * 10**9)
        with self._turn:
            if self._stop.is_set():
                return []
            with closing(self._store.another()) as handle:
                runs = attribute_range(handle, self._settings, self._config_hash, *bounds, provisional=provisional, stop=self._stop)
            return [as_json(run) for run in runs]

    def close(self) -> None:
        self._stop.set()
        with self._turn:
            pass


def as_json(run: Any) -> Run:
    """A RunResult for machines: ids and atoms as text."""
    big = ("run_id", "pools_atoms", "ledger_atoms")
    return {name: str(value) if name in big else value for name, value in asdict(run).items()}


def line(run: Run) -> str:
    """A RunResult for people."""
    first, last = (datetime.fromtimestamp(run[name] // 10**9, UTC) for name in ("from_ns", "to_ns"))
    return (
        f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC: {run['state']} ({run['kind']}), {run['requests']} requests,"
        f" {run['attempts']} attempts, {run['seconds']:.2f} s"
    )


def _ask(endpoint: Endpoint, bounds: Bounds, provisional: bool, wait: bool) -> list[Run] | None:
    body = {"from_at": bounds[0].isoformat(), "to_at": bounds[1].isoformat(), "provisional": provisional, "wait": wait}
    request = Request(
        f"http://{endpoint.http}/admin/attribute",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {endpoint.token.get_secret_value()}", "Content-Type": "application/json"},
    )
    try:
        with urlopen(request, timeout=WAIT_SECONDS) as answer:
            content = json.load(answer)
    except HTTPError as error:
        raise CheckFailed(f"the running 'tokenpath up' answered {error.code}: {error.read().decode(errors='replace')[:500]}") from error
    except (URLError, TimeoutError) as error:
        raise DependencyDown(f"the running 'tokenpath up' at {endpoint.http} does not answer: {error}") from error
    runs: list[Run] | None = content.get("runs")
    return runs
