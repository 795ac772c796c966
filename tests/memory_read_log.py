"""A log in memory for tests of the loader: it appends, reads and commits, and fails as told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.log import DEAD_LETTERS_TOPIC, Headers, Record, TopicPartition


@dataclass
class MemoryReadLog:
    """AppendLog and ReadLog of one group in one object, partition 0 only. It reads `topics`, or all but the dead letters.
    `before` runs first in each call with its name: it may raise."""

    before: Callable[[str], None] = lambda _: None
    records: dict[str, list[Record]] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    commits: dict[TopicPartition, int] = field(default_factory=dict)
    poll_records_max: int = 1_000_000
    topics: frozenset[str] = frozenset()

    def _read(self) -> dict[str, list[Record]]:
        wanted = self.topics or self.records.keys() - {DEAD_LETTERS_TOPIC}
        return {topic: records for topic, records in self.records.items() if topic in wanted}

    def append(self, topic: str, headers: Headers, value: bytes) -> None:
        self.before("append")
        records = self.records.setdefault(topic, [])
        records.append(Record(topic, 0, len(records), dict(headers), value))

    def poll(self, max_records: int, max_bytes: int, timeout_s: float) -> Sequence[Record]:
        self.before("poll")
        found: list[Record] = []
        for topic, records in self._read().items():
            for record in records[self.positions.get(topic, 0) :]:
                if len(found) == min(max_records, self.poll_records_max) or (found and max_bytes < len(record.value)):
                    return found
                found.append(record)
                max_bytes -= len(record.value)
                self.positions[topic] = record.offset + 1
        return found

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        self.before("commit")
        self.commits.update(next_offsets)

    def committed(self) -> Mapping[TopicPartition, int]:
        return {TopicPartition(topic, 0): self.commits.get(TopicPartition(topic, 0), 0) for topic in self._read()}

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        return {TopicPartition(topic, 0): len(records) for topic, records in self._read().items()}

    def rewind(self) -> None:
        self.before("rewind")
        self.positions = {partition.topic: offset for partition, offset in self.committed().items()}

    def close(self) -> None: ...
