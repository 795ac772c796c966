"""Everything for one machine in one process: receivers, log, loader, attribution, ClickHouse's HTTP interface, API and viewer.

The parts that live in other packages (receivers, viewer) come in as callables from the CLI.
"""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import SecretStr
from starlette.routing import BaseRoute

from pipeline.attribution.on_request import Requested
from pipeline.attribution.windows import Attributor
from pipeline.command import Command
from pipeline.configuration.versions import store_configuration
from pipeline.errors import TokenpathError
from pipeline.loading.loader import Loader
from pipeline.serving.api import api_app
from pipeline.serving.embedded import EmbeddedEngine, end_queries
from pipeline.serving.endpoint import endpoint_app
from pipeline.serving.instance import Endpoint, announced, holding, new_token
from pipeline.serving.processes import Receive, Scrape, append_log, lag, loader_metrics, read_log, receiving
from pipeline.serving.workers import Worker, http_worker, run_together
from pipeline.store.client import Store, Table, open_store
from pipeline.store.migrate import migrate
from schemas.counters import Counters
from schemas.keys import Identity, Keyring, hash_key
from schemas.log import LogFull, LogUnavailable
from schemas.settings import KeySettings, Permission, is_loopback

Query = Callable[[str, Mapping[str, Any]], Table]
Pages = Callable[[Query], list[BaseRoute]]


@dataclass(frozen=True)
class Shared:
    """One store handle that several threads use in turn."""

    store: Store
    lock: threading.Lock

    def query(self, sql: str, parameters: Mapping[str, Any]) -> Table:
        with self.lock:
            return self.store.query(sql, parameters)


def run_up(
    command: Command,
    receive: Receive,
    counters: Counters,
    pages: Pages | None,
    stop: threading.Event,
    ready: Callable[[Endpoint], None],
    scrape: Scrape | None = None,
) -> None:
    """Starts all parts, calls `ready`, and returns when `stop` is set and what was accepted is stored. Raises the first error of a part."""
    settings = command.settings
    token = SecretStr(new_token())
    with ExitStack() as stack:
        stack.enter_context(holding(command.data))
        store = stack.enter_context(closing(open_store(settings.store)))
        migrate(store)
        config_hash = store_configuration(store, command.configuration, datetime.now(UTC))
        handles = [stack.enter_context(closing(store.another())) for _ in range(3)]
        log = stack.enter_context(closing(append_log(settings)))
        reading = stack.enter_context(closing(read_log(settings)))
        loader = stack.enter_context(closing(Loader(reading, handles[0], log, settings)))
        attributor = Attributor(handles[1], settings.attribution, config_hash)
        requested = stack.enter_context(closing(Requested(store, settings.attribution, config_hash)))
        shared = Shared(handles[2], threading.Lock())
        keys = Keys(settings.keys, token)
        api = api_app(
            ready=lambda: {
                "store": works(lambda: shared.query("SELECT 1", {})),
                "log": works(lambda: lag(settings)),
                "loader": not loader.counters.outage,
            },
            metrics=lambda: counters.text() + loader_metrics(loader.counters),
            attribute=requested.run,
            may=keys.platform_may,
            pages=pages(shared.query) if pages else [],
            pages_need_key=not is_loopback(settings.serve.http),
        )
        workers = [
            receiving(receive(settings, log, Keyring(settings.keys), counters)),
            Worker("loader", loader.run),
            Worker("attribution", attributor.run),
            http_worker("api", api, "http", settings.serve.http),
        ]
        if scrape and settings.scrape:
            workers.insert(0, Worker("scrape", scrape(settings, log, counters)))
        if store.embedded:
            stack.callback(end_queries, store.path)  # what began while the servers stopped
            workers.insert(-1, ending_queries(store.path))
            front = endpoint_app(EmbeddedEngine(store.path), keys.who)
            workers.append(http_worker("clickhouse", front, "clickhouse_http", settings.serve.clickhouse_http))
        endpoint = Endpoint(pid=os.getpid(), clickhouse_http=settings.serve.clickhouse_http, http=settings.serve.http, token=token)

        def started() -> None:
            if store.embedded:
                stack.enter_context(announced(command.data, endpoint))
            ready(endpoint)

        run_together(workers, stop, started)


def ending_queries(path: str) -> Worker:
    """Stops after loader and attribution, before the servers: readers do not keep `up` from ending."""

    def run(stop: threading.Event) -> None:
        stop.wait()
        end_queries(path)

    return Worker("queries", run)


class Keys:
    """The configured keys and the admin token of `endpoint.json`, for the two HTTP servers of this process."""

    def __init__(self, configured: tuple[KeySettings, ...], token: SecretStr) -> None:
        own = KeySettings(name="endpoint.json", sha256=hash_key(token.get_secret_value()), principal="platform", may=("read", "admin"))
        self._keys = Keyring((*configured, own))

    def who(self, key: str | None, needs: Permission) -> Identity | None:
        found = self._keys.authenticate(key, needs)
        return found if isinstance(found, Identity) else None

    def platform_may(self, key: str | None, needs: Permission) -> bool:
        """Pages and API show every tenant: only the platform's keys open them."""
        found = self.who(key, needs)
        return found is not None and found.principal == "platform"


def works(ask: Callable[[], object]) -> bool:
    """False where a dependency does not answer."""
    try:
        ask()
    except (TokenpathError, LogUnavailable, LogFull):
        return False
    return True
