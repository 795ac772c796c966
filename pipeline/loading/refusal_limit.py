"""When bad data is so much that a person must look. Pure: a batch is judged before its offsets are committed."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import TooManyDeadLetters
from pipeline.loading.admission import Refusal

RECENT_MESSAGES = 10_000


@dataclass(frozen=True, slots=True)
class RefusalLimit:
    """Limits and what they look back on: the run of refused messages up to now, and which of the newest were refused.

    The ratio counts only beyond `run_max` refusals: a few bad messages at a quiet hour stop nobody.
    """

    ratio_max: float
    run_max: int
    run: int = 0
    recent: bytes = b""

    def after(self, refused: Sequence[Refusal | None]) -> "RefusalLimit":
        """The state after a batch, one entry a message in order, None where it is stored. Raises TooManyDeadLetters."""
        run = self.run
        for refusal in refused:
            run = 0 if refusal is None else run + 1
            if refusal is not None and run > self.run_max:
                raise too_many(f"{run} messages in a row", refusal)
        recent = (self.recent + bytes(refusal is not None for refusal in refused))[-RECENT_MESSAGES:]
        bad = recent.count(1)
        if bad > self.run_max and bad > self.ratio_max * len(recent):
            raise too_many(f"{bad} of the newest {len(recent)} messages", next(one for one in reversed(refused) if one is not None))
        return RefusalLimit(self.ratio_max, self.run_max, run, recent)


def too_many(how_many: str, last: Refusal) -> TooManyDeadLetters:
    record = last.record
    return TooManyDeadLetters(
        last.reason,
        f"{how_many} cannot be decoded, the last at {record.topic}/{record.partition} offset {record.offset}: {last.error};"
        " nothing was committed: find out who sends this, or raise [loader] dead_letter_ratio_max and dead_letter_run_max",
    )
