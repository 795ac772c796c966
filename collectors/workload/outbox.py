"""The last step before the wire: spans in the order of their ends, in batches."""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from collectors.workload.emit import Sender
from collectors.workload.spans import SpanData


class Outbox:
    """Holds spans until no earlier one can come; gives full batches to the senders in turn. What it holds is bounded by the requests
    that are under way at one (virtual) moment, and one batch."""

    def __init__(self, senders: Sequence[Sender], batch_spans: int) -> None:
        self._senders, self._batch_spans = senders, batch_spans
        self._held: list[SpanData] = []  # a heap: a span's first field is its end
        self._batch: list[SpanData] = []
        self.spans = self.batches = 0

    def put(self, spans: Iterable[SpanData]) -> None:
        for span in spans:
            heappush(self._held, span)

    def send_before(self, watermark_ns: int) -> None:
        """Sends what ends before the watermark, as far as it fills batches."""
        while self._held and self._held[0].end_ns < watermark_ns:
            self._batch.append(heappop(self._held))
            if len(self._batch) == self._batch_spans:
                self._send()

    def flush(self) -> None:
        """Sends the last, partly filled batch."""
        if self._batch:
            self._send()

    def _send(self) -> None:
        self._senders[self.batches % len(self._senders)].send(self._batch)
        self.batches += 1
        self.spans += len(self._batch)
        self._batch = []
