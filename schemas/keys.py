"""Who a key belongs to and what it may do. Pure: keys come in as settings, nothing is read or stored here."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.settings import KeySettings, Permission, Principal

PLATFORM: Principal = "platform"


@dataclass(frozen=True, slots=True)
class Identity:
    """`key_name` is empty for a sender that needed no key."""

    principal: Principal
    key_name: str


@dataclass(frozen=True, slots=True)
class KeyRefused:
    """`no_key` and `unknown_key` are 401, `not_allowed` is 403: the key is known and may do other things."""

    reason: Literal["no_key", "unknown_key", "not_allowed"]
    message: str


class Keyring:
    """The configured keys. Safe to share between threads.

    Ingest without any ingest key is open and counts as `platform` (the receivers then bind loopback only).
    `read` and `admin` always need a key, and neither contains the other.
    """

    def __init__(self, keys: Sequence[KeySettings]) -> None:
        self._keys = tuple((bytes.fromhex(key.sha256), key) for key in keys)
        self.ingest_is_open = not any("ingest" in key.may for key in keys)

    def authenticate(self, bearer: str | None, needs: Permission) -> Identity | KeyRefused:
        """Compares with every key in constant time, so that the answer's delay tells nothing."""
        if needs == "ingest" and self.ingest_is_open:
            return Identity(PLATFORM, "")
        if not bearer:
            return KeyRefused("no_key", "this address needs a key: send `authorization: Bearer <key>`")
        digest = _digest(bearer)
        found: KeySettings | None = None
        for stored, key in self._keys:
            if hmac.compare_digest(stored, digest):
                found = key
        if found is None:
            return KeyRefused("unknown_key", "the key is not one of the configured keys")
        if needs not in found.may:
            return KeyRefused("not_allowed", f"key {found.name!r} may not {needs}: add {needs!r} to its `may`")
        return Identity(found.principal, found.name)


def bearer_token(authorization: str | None) -> str | None:
    """The key in an `authorization` header or metadata value; None for another scheme or nothing."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def hash_key(key: str) -> str:
    """The hex SHA-256 that `[[key]] sha256` holds. Keys are long random strings, so no slow hash is needed."""
    return _digest(key).hex()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
