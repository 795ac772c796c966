"""The 15 stages of a request's way, their groups, and the words that qualify a duration (DESIGN section 1)."""

from enum import StrEnum
from typing import Literal, get_args

Stage = Literal[
    "gateway", "auth", "tokenize", "route", "schedule", "kv_cache", "prefill", "decode",
    "kernel", "hbm", "nvlink", "switch", "nic", "stream", "settle",
]  # fmt: skip
STAGES: tuple[Stage, ...] = get_args(Stage)
OTHER = "other"  # time of a request that no stage covers

GROUPS: dict[str, tuple[Stage, ...]] = {
    "gateway": ("gateway", "auth", "tokenize", "route", "stream", "settle"),
    "scheduler": ("schedule",),
    "kv_cache": ("kv_cache",),
    "gpu": ("prefill", "decode", "kernel", "hbm"),
    "network": ("nvlink", "switch", "nic"),
}

# Innermost wins when stages overlap (DESIGN 4.11): the higher rank owns the time. stream and settle rank like gateway.
RANK: dict[str, int] = {
    "gateway": 1, "stream": 1, "settle": 1, "auth": 2, "tokenize": 3, "route": 4, "schedule": 5, "kv_cache": 6,
    "prefill": 7, "decode": 8, "kernel": 9, "hbm": 10, "nvlink": 11, "switch": 12, "nic": 13,
}  # fmt: skip


class Quality(StrEnum):
    """How a stage duration is known. Durations of different quality are never mixed without saying so."""

    SPAN = "span"
    ATTRIBUTE = "attribute"
    DERIVED = "derived"
    APPORTIONED = "apportioned"


class Layer(StrEnum):
    """Who wrote an inference span. One layer bills: the gateway's provider-final usage, else the engine's, else a client's."""

    CLIENT = "client"
    GATEWAY = "gateway"
    ROUTER = "router"
    ENGINE = "engine"
    CACHE = "cache"


class Outcome(StrEnum):
    """What became of a request or attempt. The first that fits (CONTRACTS 2.3)."""

    USEFUL = "useful"
    LATE = "late"
    ABORTED = "aborted"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    BLOCKED = "blocked"
    UNMETERED = "unmetered"
    REJECTED = "rejected"
