"""Messages that cannot be decoded: kept unchanged in a topic of their own, with where they were and why (CONTRACTS 3.8).

A loader that is killed between the dead letter and its commit writes the letter again: `entries` shows each source once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.loading.admission import Refusal
from schemas.log import DEAD_LETTERS_TOPIC, AppendLog, Headers, ReadLog, Record, RecordTooLarge, TopicPartition

ADDED = ("source_topic", "source_partition", "source_offset", "reason", "error")
ERROR_CHARACTERS = 500
POLL_RECORDS, POLL_BYTES, POLL_SECONDS = 1_000, 33_554_432, 1.0
HEADER_CHARACTERS = 256


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """`headers` are the message's own. `kept` is False where the message was larger than the topic takes: then it is gone."""

    source: TopicPartition
    source_offset: int
    reason: str
    error: str
    headers: Headers
    value: bytes
    kept: bool


def append(log: AppendLog, refusal: Refusal) -> None:
    """Returns once the letter is durable. Raises LogFull or LogUnavailable."""
    record = refusal.record
    headers = {
        **_own(record.headers),
        "source_topic": record.topic,
        "source_partition": str(record.partition),
        "source_offset": str(record.offset),
        "reason": refusal.reason,
        "error": refusal.error[:ERROR_CHARACTERS],
    }
    try:
        log.append(DEAD_LETTERS_TOPIC, headers, record.value)
    except RecordTooLarge:
        # Only a Collector's topic can hold more than our own take; the reason is worth more than nothing.
        few = {name: headers[name] for name in ADDED}
        log.append(DEAD_LETTERS_TOPIC, {**few, "value_bytes_dropped": str(len(record.value))}, b"")


def entries(log: ReadLog, reason: str = "") -> Iterator[DeadLetter]:
    """All letters from the oldest, each source once, of one reason if it is given. `log` is opened on the dead letters
    without a group. Raises LogUnavailable."""
    ends = log.end_offsets()
    read = dict.fromkeys(ends, 0)
    seen: set[tuple[TopicPartition, int]] = set()
    while any(read[partition] < end for partition, end in ends.items()):
        records = log.poll(POLL_RECORDS, POLL_BYTES, POLL_SECONDS)
        if not records:
            return  # the topic's retention deleted what the end offsets count
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            read[partition] = max(read.get(partition, 0), record.offset + 1)
            letter = _letter(record)
            if (letter.source, letter.source_offset) not in seen:
                seen.add((letter.source, letter.source_offset))
                if reason in ("", letter.reason):
                    yield letter


def replay(letters: Iterator[DeadLetter], log: AppendLog) -> int:
    """Appends them again to the topics they came from, with their own headers, and says how many. A letter that is still
    bad becomes a new letter; one that was not kept is passed over. Raises LogFull, LogUnavailable or RecordTooLarge."""
    sent = 0
    for letter in letters:
        if letter.kept:
            log.append(letter.source.topic, letter.headers, letter.value)
            sent += 1
    return sent


def _letter(record: Record) -> DeadLetter:
    headers = record.headers
    partition, offset = headers.get("source_partition", ""), headers.get("source_offset", "")
    return DeadLetter(
        TopicPartition(headers.get("source_topic", ""), int(partition) if partition.isdecimal() else 0),
        int(offset) if offset.isdecimal() else record.offset,
        headers.get("reason", ""),
        headers.get("error", ""),
        _own(headers),
        record.value,
        "value_bytes_dropped" not in headers,
    )


def _own(headers: Headers) -> dict[str, str]:
    """Headers of the message without those of a letter, so that a letter about a replayed letter stays readable."""
    return {name: text[:HEADER_CHARACTERS] for name, text in headers.items() if name not in (*ADDED, "value_bytes_dropped")}
