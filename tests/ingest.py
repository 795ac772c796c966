"""Stores OTLP bodies the way the loader does: same envelope, same insert. For tests that need spans in the store."""

from collections.abc import Sequence

from pipeline.loading.envelope import Arrival, Signal, insert, wrap
from pipeline.store.client import Store
from schemas.log import METRICS_TOPIC, TRACES_TOPIC, Record

RECEIVED_NS = 1_796_083_200_000_000_000  # 2026-12-01T00:00:00Z, just after the captures


def ingest(
    store: Store,
    bodies: Sequence[bytes],
    principal: str = "platform",
    received_ns: int = RECEIVED_NS,
    *,
    signal: Signal = "traces",
    first_offset: int = 0,
    topic: str = "",
    ingest_key: str = "test",
    max_age_days: int = 400,
) -> None:
    """One batch of `Export…ServiceRequest` bodies with offsets from `first_offset`; spans later than an hour after receipt are rejected."""
    topic = topic or (TRACES_TOPIC if signal == "traces" else METRICS_TOPIC)
    arrivals = [
        Arrival(Record(topic, 0, first_offset + number, {}, body), received_ns, principal, ingest_key) for number, body in enumerate(bodies)
    ]
    insert(store, signal, wrap(arrivals, max_age_days))
