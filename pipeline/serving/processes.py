"""The parts of `up` that also run alone on a cluster (receivers, loader), and what commands ask the log."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Protocol

from pipeline.command import Command
from pipeline.errors import ConfigurationError
from pipeline.loading.loader import Counters as LoaderCounters
from pipeline.loading.loader import Loader
from pipeline.log import open_append_log, open_read_log
from pipeline.reporting.status import LogPosition, log_positions
from pipeline.serving.instance import store_for_command
from pipeline.serving.workers import Worker, run_together
from pipeline.store.migrate import migrate
from schemas.counters import Counters
from schemas.keys import Keyring
from schemas.log import DEAD_LETTERS_TOPIC, LOADER_GROUP, METRICS_TOPIC, TRACES_TOPIC, AppendLog, ReadLog
from schemas.settings import Settings

STOP_SECONDS = 10.0
LOADER_SECONDS = 5  # beyond a batch's own time: one insert, and the commit


class Receiver(Protocol):
    """A running OTLP receiver (collectors)."""

    def stop(self, grace_s: float) -> None: ...


Sleeper = Callable[[float], object]
Ask = Callable[[Settings], Sequence[LogPosition]]
Receive = Callable[[Settings, AppendLog, Keyring, Counters], Sequence[Receiver]]
Scrape = Callable[[Settings, AppendLog, Counters], Callable[[threading.Event], None]]


def topics(settings: Settings) -> list[str]:
    """What the loader reads: our topics and those that Collectors write."""
    return [TRACES_TOPIC, METRICS_TOPIC, *(topic.name for topic in settings.topic)]


def append_log(settings: Settings) -> AppendLog:
    """For the receivers and for dead letters. Topics of Collectors are theirs: we only read them."""
    return open_append_log(settings.log, settings.receive.max_body_bytes, [TRACES_TOPIC, METRICS_TOPIC, DEAD_LETTERS_TOPIC])


def read_log(settings: Settings) -> ReadLog:
    """For the loader, as its group."""
    return open_read_log(settings.log, topics(settings), LOADER_GROUP)


@contextmanager
def dead_letters(settings: Settings) -> Iterator[ReadLog]:
    """The dead letters from the first on; nobody's offsets move."""
    with closing(open_read_log(settings.log, [DEAD_LETTERS_TOPIC], None)) as log:
        yield log


def receiving(receivers: Sequence[Receiver]) -> Worker:
    """Receivers that listen already; they stop first, so that what senders were told is accepted still reaches the store."""

    def run(stop: threading.Event) -> None:
        stop.wait()
        for receiver in receivers:
            receiver.stop(STOP_SECONDS)

    return Worker("receivers", run)


def run_receivers(command: Command, receive: Receive, counters: Counters, stop: threading.Event) -> None:
    """`tokenpath receive`: until `stop`."""
    with closing(append_log(command.settings)) as log:
        receivers = receive(command.settings, log, Keyring(command.settings.keys), counters)
        where = command.settings.receive
        run_together([receiving(receivers)], stop, lambda: command.err.print(f"OTLP/gRPC on {where.grpc}, OTLP/HTTP on {where.http}"))


def run_scraper(command: Command, scrape: Scrape, counters: Counters, stop: threading.Event) -> None:
    """`tokenpath scrape`: until `stop`. Raises ConfigurationError where there is nothing to scrape."""
    targets = command.settings.scrape
    if not targets:
        raise ConfigurationError("nothing to scrape: add a [[scrape]] with job and url to tokenpath.toml")
    with closing(append_log(command.settings)) as log:
        scraping = Worker("scrape", scrape(command.settings, log, counters))
        run_together([scraping], stop, lambda: command.err.print(f"scraping {len(targets)} endpoints"))


def run_loader(command: Command, once: bool, from_beginning: bool, stop: threading.Event) -> dict[str, int]:
    """`tokenpath load`: until `stop`, or until the log's end with `once`. Returns what was loaded."""
    settings = command.settings
    with (
        store_for_command(settings.store, command.data) as store,
        closing(read_log(settings)) as reading,
        closing(append_log(settings)) as log,
    ):
        migrate(store)
        if from_beginning:
            reading.commit(dict.fromkeys(reading.end_offsets(), 0))
            reading.rewind()
        with closing(Loader(reading, store, log, settings)) as loader:
            if not once:
                loader.run(stop)
            while once and not stop.is_set() and any(position.lag for position in log_positions(reading)):
                loader.step()
            return {name: getattr(loader.counters, name) for name in ("messages", "spans", "dead_letters")}


def positions(settings: Settings) -> tuple[LogPosition, ...]:
    """How far the loader's group is, without joining it."""
    with closing(read_log(settings)) as log:
        return log_positions(log)


def lag(settings: Settings) -> int:
    """Records that the loader has not committed yet."""
    return sum(position.lag for position in positions(settings))


def loader_stands(settings: Settings, seen: Sequence[LogPosition], ask: Ask = positions, sleeper: Sleeper = time.sleep) -> bool:
    """Whether records wait in the log and nobody takes them: asks each second, for as long as a batch may take, if an offset was
    committed since `seen`. Answers at once where nothing waits."""
    now = seen
    for _ in range(math.ceil(settings.loader.batch_seconds) + LOADER_SECONDS):
        if not any(position.lag for position in now) or _committed(now) != _committed(seen):
            return False
        sleeper(1.0)
        now = ask(settings)
    return True


def _committed(at: Sequence[LogPosition]) -> dict[tuple[str, int], int]:
    return {(position.topic, position.partition): position.committed_offset for position in at}


def dead_letter_count(settings: Settings) -> int:
    with dead_letters(settings) as log:
        return sum(log.end_offsets().values())


def loader_metrics(counters: LoaderCounters) -> str:
    """Prometheus text of what the loader did since it started."""
    help_texts = {
        "batches": "Batches stored and committed.",
        "messages": "Messages read, dead letters included.",
        "spans": "Spans stored, copies of a redelivery included.",
        "body_bytes": "Bytes of the messages read.",
        "dead_letters": "Messages put aside because they cannot be decoded.",
        "outages": "Times that store or log did not answer.",
    }
    lines = []
    for name, text in help_texts.items():
        metric = f"tokenpath_loader_{name}_total"
        lines += [f"# HELP {metric} {text}", f"# TYPE {metric} counter", f"{metric} {getattr(counters, name)}"]
    lag_ns = max(0, counters.stored_at_ns - counters.stored_received_ns)
    lines += [
        "# HELP tokenpath_loader_freshness_seconds From receipt to queryable, of the newest span.",
        "# TYPE tokenpath_loader_freshness_seconds gauge",
        f"tokenpath_loader_freshness_seconds {lag_ns / 1e9:.3f}",
    ]
    return "\n".join(lines) + "\n"
