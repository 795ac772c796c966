"""What a record tells: one call to a model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from collectors.records.fields import Row, Scalar

IsContent = Callable[[str], bool]  # whether a field's name says that it holds a prompt or an answer


class NotARecord(ValueError):
    """A row that cannot be read. The message is for the person who imports it."""


class NotACall(Exception):
    """A row of a known format that tells of something else than a call (a prompt, a tool, a health check). Left out, but counted."""


@dataclass(frozen=True, slots=True)
class Context:
    """The W3C trace that a record names, and the span in it that was active (zeros where only the trace is told)."""

    trace_id: bytes
    span_id: bytes


@dataclass(frozen=True, slots=True)
class Leg:
    """What one worker ran of the inference. `worker` is the name that the record gives it."""

    phase: Literal["", "prefill", "decode"]
    worker: str
    started_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class Call:
    """`identity`: what makes it this call and no other; the same in every copy of the record.

    `request`: the record is a gateway's, so it shows the client's request too; `on_request` names the attributes that belong to that.
    `attempted`: False where the gateway answered without asking a model.
    """

    format: str
    identity: tuple[str, ...]
    started_ns: int
    ended_ns: int
    attributes: Mapping[str, Scalar]
    on_request: frozenset[str] = frozenset()
    request: bool = False
    attempted: bool = True
    failed: bool = False
    failure: str = ""
    legs: tuple[Leg, ...] = ()
    context: Context | None = None


class Format(Protocol):
    """A module of this package."""

    def recognises(self, row: Row) -> bool:
        """Whether the row's fields are this format's, also in a version that `call` refuses."""

    def call(self, row: Row, is_content: IsContent) -> Call:
        """Raises NotARecord or NotACall. Fields that are content do not get into the call."""
