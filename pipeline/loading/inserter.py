"""Stores arrivals of one signal: several inserts at once, and a search for the message that the decoder refuses."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from pipeline.errors import BadData, StoreDown
from pipeline.loading.admission import Refusal
from pipeline.loading.envelope import Arrival, Signal, decodes, insert, wrapped_pieces
from pipeline.loading.item_count import count_items
from pipeline.loading.normal_form import normal_form
from pipeline.loading.refusal_limit import too_many
from pipeline.store.client import Store
from schemas.log import Record

# Below, a second insert costs more than it gains: each one analyses the views anew and writes a part of its own, which takes
# as long as storing 20,000 spans.
PIECE_BYTES_MIN = 8_388_608


class Inserter:
    """`at_once` handles on the store, each used by one thread at a time. A call returns when everything is stored."""

    def __init__(self, store: Store, at_once: int, piece_bytes: int, piece_items: int, max_age_days: int, run_max: int) -> None:
        self._own = [store.another() for _ in range(at_once - 1)]
        self._idle: SimpleQueue[Store] = SimpleQueue()
        for handle in (store, *self._own):
            self._idle.put(handle)
        self._threads = ThreadPoolExecutor(at_once, "insert")
        self._at_once, self._piece_bytes, self._piece_items = at_once, piece_bytes, piece_items
        self._max_age_days, self._run_max, self._edition = max_age_days, run_max, 0

    def store(self, signal: Signal, arrivals: Sequence[Arrival]) -> list[Refusal]:
        """Stores all but those that cannot be decoded and returns these. Idempotent.

        Raises StoreDown when any insert fails for the store's sake, TooManyDeadLetters after more than run_max refusals in a row.
        """
        total = sum(len(arrival.record.value) for arrival in arrivals)
        piece_bytes = min(self._piece_bytes, max(PIECE_BYTES_MIN, math.ceil(total / self._at_once)))
        pieces = list(cut(arrivals, piece_bytes, self._piece_items))
        # All are waited for, so that no insert of this batch is still running when an error of another one is handled.
        tries = [self._threads.submit(self._try, signal, piece) for piece in pieces]
        errors = [future.exception() for future in tries]
        for error in errors:
            if error is not None and not isinstance(error, BadData):
                raise error
        refused: list[Refusal] = []
        for piece, error in zip(pieces, errors, strict=True):
            if isinstance(error, BadData):
                refused += self._search(signal, piece, error)
        return refused

    def _try(self, signal: Signal, arrivals: Sequence[Arrival]) -> None:
        handle = self._idle.get()
        try:
            insert(handle, signal, wrapped_pieces(arrivals, self._max_age_days), self._edition)
        finally:
            self._idle.put(handle)

    def _check_decoder(self, signal: Signal) -> None:
        """A disk that is full at the first insert leaves half a schema, and then every message is refused."""
        handle = self._idle.get()
        try:
            if not decodes(handle, signal, self._edition):
                self._edition += 1
                raise StoreDown(
                    f"{handle.where}: it refuses even an empty request: its copy of the schema is broken, the next one gets a new name"
                )
        finally:
            self._idle.put(handle)

    def _search(self, signal: Signal, refused: Sequence[Arrival], error: BadData) -> list[Refusal]:
        """Halves what was refused until single messages are left: about 2 log2(n) inserts for one bad message of n."""
        self._check_decoder(signal)
        found: list[Refusal] = []
        run = 0
        todo: list[tuple[Sequence[Arrival], BadData | None]] = [(refused, error)]
        while todo:
            arrivals, known = todo.pop()
            bad = known or self._refusal(signal, arrivals)
            if bad is None:
                run = 0
            elif len(arrivals) > 1:
                half = len(arrivals) // 2
                todo += [(arrivals[half:], None), (arrivals[:half], None)]
            elif not self._second_chance(signal, arrivals[0], bad):
                found.append(Refusal(arrivals[0].record, bad.reason, str(bad)))
                run += 1
                if run > self._run_max:
                    raise too_many(f"{run} messages in a row", found[-1])
            else:
                run = 0
        return found

    def _refusal(self, signal: Signal, arrivals: Sequence[Arrival]) -> BadData | None:
        try:
            self._try(signal, arrivals)
        except BadData as error:
            return error
        return None

    def _second_chance(self, signal: Signal, arrival: Arrival, bad: BadData) -> bool:
        body = normal_form(signal, arrival.record.value) if bad.reason == "undecodable" else None
        if body is None:
            return False
        record = Record(arrival.record.topic, arrival.record.partition, arrival.record.offset, arrival.record.headers, body)
        return self._refusal(signal, [Arrival(record, arrival.received_ns, arrival.principal, arrival.ingest_key)]) is None

    def close(self) -> None:
        """Closes the handles that it opened itself."""
        self._threads.shutdown()
        for handle in self._own:
            handle.close()


def cut(arrivals: Sequence[Arrival], bytes_max: int, items_max: int) -> Iterator[Sequence[Arrival]]:
    """Consecutive pieces within both limits; a single larger message is a piece of its own."""
    first, held_bytes, held_items = 0, 0, 0
    for number, arrival in enumerate(arrivals):
        size, items = len(arrival.record.value), count_items(arrival.record.value)
        if number > first and (held_bytes + size > bytes_max or held_items + items > items_max):
            yield arrivals[first:number]
            first, held_bytes, held_items = number, 0, 0
        held_bytes, held_items = held_bytes + size, held_items + items
    if arrivals:
        yield arrivals[first:]
