"""An AppendLog in memory for tests of the receivers: it keeps what it took, or fails as told."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Appended:
    topic: str
    headers: dict[str, str]
    value: bytes


@dataclass
class MemoryLog:
    """`before_append` runs first in each append: it may raise what a log raises, or wait."""

    before_append: Callable[[], None] = lambda: None
    records: list[Appended] = field(default_factory=list)
    attempts: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def append(self, topic: str, headers: Mapping[str, str], value: bytes) -> None:
        with self.lock:
            self.attempts += 1
        self.before_append()
        with self.lock:
            self.records.append(Appended(topic, dict(headers), value))

    def close(self) -> None: ...
