"""`tokenpath dead-letters`: what could not be decoded, shown and sent again."""

from collections import deque
from contextlib import closing
from itertools import islice

from rich.table import Table

from pipeline.command import Command
from pipeline.loading.dead_letter import DeadLetter, entries, replay
from pipeline.log import open_append_log
from pipeline.serving.processes import dead_letters


def show(command: Command, limit: int, reason: str) -> None:
    """The newest `limit` letters, newest last."""
    with dead_letters(command.settings) as log:
        letters = list(deque(entries(log, reason), maxlen=limit))
    if command.as_json:
        command.print_json({"dead_letters": [_document(letter) for letter in letters]})
        return
    if not letters:
        command.out.print("no dead letters")
        return
    table = Table(box=None, header_style="bold")
    for name in ("topic", "partition", "offset", "reason", "sender", "bytes", "error"):
        table.add_column(name, justify="right" if name in ("partition", "offset", "bytes") else "left", overflow="fold")
    for letter in letters:
        source = letter.source
        sender = letter.headers.get("principal", "–")
        cells = (
            source.topic,
            str(source.partition),
            str(letter.source_offset),
            letter.reason,
            sender,
            str(len(letter.value)),
            letter.error,
        )
        table.add_row(*cells)
    command.out.print(table)


def send_again(command: Command, limit: int, reason: str) -> None:
    """Puts the oldest `limit` letters back into the topics they came from."""
    with dead_letters(command.settings) as log:
        letters = list(islice(entries(log, reason), limit))
    settings, sent = command.settings, 0
    if letters:
        # Opened for just these topics and sizes: one of them may be a Collector's.
        names, largest = sorted({letter.source.topic for letter in letters}), max(len(letter.value) for letter in letters)
        with closing(open_append_log(settings.log, max(1, largest), names)) as target:
            sent = replay(iter(letters), target)
    if command.as_json:
        command.print_json({"sent": sent})
    else:
        command.out.print(f"{sent} messages sent again; what still cannot be decoded becomes a dead letter again")


def _document(letter: DeadLetter) -> dict[str, object]:
    return {
        "topic": letter.source.topic,
        "partition": letter.source.partition,
        "offset": letter.source_offset,
        "reason": letter.reason,
        "error": letter.error,
        "headers": dict(letter.headers),
        "bytes": len(letter.value),
        "kept": letter.kept,
    }
