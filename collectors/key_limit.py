"""How many different attribute keys a sender may use in an hour. Pure but for what it remembers.

A key costs the store a dictionary entry in every part and readers a name to look through, so one sender that puts ids into keys
would make everybody's queries slow. Attributes with keys beyond the limit are dropped, their spans and samples are kept.
"""

import logging
import threading
import tomllib
from collections.abc import Iterator, Set
from functools import cache
from importlib.resources import files
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from collectors.wire import Signal, tolerant
from schemas.keys import Identity

HOUR_NS = 3_600_000_000_000
KEY_BYTES = 256  # what the store keeps of a key

# Which replica a span comes from, where no profile says it.
REPLICA_KEYS = frozenset({b"service.name", b"service.instance.id", b"service.version", b"k8s.pod.name", b"tokenpath.replica.id"})

logger = logging.getLogger(__name__)


class KeyLimit:
    """Safe to share between threads. Keeps at most `per_hour` keys of 256 bytes for each sender; senders are the configured keys.

    `always` are keys that figures are made of: they are taken whatever else a sender sends, and do not count.
    """

    def __init__(self, per_hour: int, always: Set[bytes] = frozenset()) -> None:
        self._per_hour, self._always = per_hour, always
        self._lock = threading.Lock()
        self._hour = 0
        self._seen: dict[Identity, set[bytes]] = {}
        self._told: set[Identity] = set()

    def beyond(self, sender: Identity, keys: Set[bytes], now_ns: int) -> frozenset[bytes]:
        """Those of `keys` that are over the sender's limit of this hour; the others count from now on."""
        with self._lock:
            if now_ns // HOUR_NS != self._hour:
                self._hour = now_ns // HOUR_NS
                self._seen.clear()
                self._told.clear()
            seen = self._seen.setdefault(sender, set())
            new = [key for key in keys if key[:KEY_BYTES] not in seen and key not in self._always]
            if len(seen) + len(new) > self._per_hour:
                new.sort()  # so that the same requests in the same order lose the same keys
            free = self._per_hour - len(seen)
            seen.update(key[:KEY_BYTES] for key in new[:free])
            doomed = frozenset(new[free:])
            tell = bool(doomed) and sender not in self._told
            if tell:
                self._told.add(sender)
        if tell:
            logger.warning(
                "sender %s (key %r) has used %d different attribute keys in this hour ([receive] max_attribute_keys_per_hour): others are "
                "dropped, as %r; a key should name a thing, ids belong into values",
                sender.principal, sender.key_name, self._per_hour, min(doomed)[:KEY_BYTES],
            )  # fmt: skip
        return doomed


@cache
def figure_keys() -> frozenset[bytes]:
    """All that the packaged profiles name, attribute keys among it, and what names a replica: without those there are no figures."""
    profiles = (entry for entry in (files("schemas") / "profiles").iterdir() if entry.name.endswith(".toml"))
    named = (text.encode() for entry in profiles for text in _texts(tomllib.loads(entry.read_text(encoding="utf-8"))))
    return REPLICA_KEYS.union(named)


def _texts(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        yield from node
        for inner in node.values():
            yield from _texts(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _texts(inner)


def drop_keys(signal: Signal, body: bytes, doomed: Set[bytes]) -> tuple[bytes, int]:
    """The request without the attributes of these keys, at any place, and how many those were. `body` is well formed."""
    request = tolerant(signal).FromString(body)
    dropped = _drop(request, doomed)
    return (request.SerializeToString(), dropped) if dropped else (body, 0)


def _drop(message: Any, doomed: Set[bytes]) -> int:
    dropped = 0
    for field, value in message.ListFields():
        if field.type != FieldDescriptor.TYPE_MESSAGE or field.message_type.name == "AnyValue":
            continue
        if field.message_type.name == "KeyValue":
            indexes = [index for index, attribute in enumerate(value) if attribute.key in doomed]
            for index in reversed(indexes):
                del value[index]
            dropped += len(indexes)
        else:
            for inner in value if field.is_repeated else (value,):
                dropped += _drop(inner, doomed)
    return dropped
