"""The data directory of one machine: who holds its store now, and how other commands reach it.

The embedded engine takes one process. `tokenpath up` takes the lock, writes `endpoint.json` (mode 0600) with its
addresses and a fresh admin token, and removes it when it ends; a command that finds it alive goes through it.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from pydantic import BaseModel, ConfigDict, PositiveInt, SecretStr

from pipeline.errors import ConfigurationError
from pipeline.store.client import DATABASE, Store, open_store
from pipeline.store.migrate import migrate, missing
from schemas.settings import StoreSettings

ENDPOINT_FILE = "endpoint.json"


class Endpoint(BaseModel):
    """Contents of `endpoint.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    pid: PositiveInt
    clickhouse_http: str
    http: str
    token: SecretStr

    @property
    def store_settings(self) -> StoreSettings:
        return StoreSettings(url=f"http://admin@{self.clickhouse_http}/{DATABASE}", password=self.token)


def new_token() -> str:
    return secrets.token_urlsafe(32)


@contextmanager
def holding(data: Path) -> Iterator[None]:
    """Exclusive use of the data directory's store by this process. Raises ConfigurationError when another process has it."""
    data.mkdir(parents=True, exist_ok=True)
    path = data / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"another process holds the store in {data}: stop it, use another --data directory, or wait until it has ended"
            ) from error
        yield
    finally:
        os.close(descriptor)


@contextmanager
def announced(data: Path, endpoint: Endpoint) -> Iterator[None]:
    """`endpoint.json` exists while the block runs."""
    path = data / ENDPOINT_FILE
    content = endpoint.model_dump(mode="json") | {"token": endpoint.token.get_secret_value()}
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
    temporary.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def live_endpoint(data: Path) -> Endpoint | None:
    """The running `tokenpath up` of this data directory; None when there is none, or when its file outlived it."""
    try:
        endpoint = Endpoint.model_validate_json((data / ENDPOINT_FILE).read_text())
        os.kill(endpoint.pid, 0)
        with urlopen(f"http://{endpoint.clickhouse_http}/ping", timeout=5) as answer:
            return endpoint if answer.read() == b"Ok.\n" else None
    except (OSError, HTTPException, ValueError, OverflowError):  # no file or none of ours; no such process; nobody there or another server
        return None


@contextmanager
def store_for_command(settings: StoreSettings, data: Path) -> Iterator[Store]:
    """The store as a command should use it: through a running `up`, else opened here under the lock; a server as configured."""
    with ExitStack() as stack:
        if settings.url.startswith("chdb:"):
            endpoint = live_endpoint(data)
            if endpoint:
                settings = endpoint.store_settings
            else:
                stack.enter_context(holding(data))
        yield stack.enter_context(closing(open_store(settings)))


@contextmanager
def migrated_store(settings: StoreSettings, data: Path) -> Iterator[Store]:
    """As `store_for_command`, with all tables there: our own engine is brought up to date, a server's operator is told to do it."""
    with store_for_command(settings, data) as store:
        if store.embedded:
            migrate(store)
        elif lacking := missing(store):
            raise ConfigurationError(f"the store at {settings.url} lacks {lacking[0]} and {len(lacking) - 1} more: run 'tokenpath migrate'")
        yield store
