"""What one run covers: every statement of a run gets the same parameters from here."""

from dataclasses import asdict, dataclass
from typing import Any

METHOD = "gpu-step-time-v1"
USEFUL_POLICY = "useful-v1"


@dataclass(frozen=True, slots=True)
class Scope:
    """A run over the adjoining windows `[from_ns, to_ns)`, unix ns, both on the window grid.

    Requests belong to the window of their root span's start, money to the window of its slot. Spans are read from
    `from_ns - max_attempt_ns` to `to_ns + max(grace_ns, max_attempt_ns)`, so that attempts that cross a border are whole.
    """

    run_id: int
    config_hash: str
    from_ns: int
    to_ns: int
    window_ns: int
    slot_ns: int
    grace_ns: int
    max_attempt_ns: int

    def parameters(self) -> dict[str, Any]:
        """Names as used in the SQL: {run_id:UInt64} {config_hash:String} {from_ns:Int64} {to_ns:Int64} {window_ns:Int64}
        {slot_ns:Int64} {grace_ns:Int64} {max_attempt_ns:Int64}."""
        return asdict(self)
