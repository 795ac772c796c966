"""What both receivers need to listen: the address check, the TLS files, and the handle to a running server."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from schemas.keys import Keyring
from schemas.settings import ReceiveSettings, is_loopback, split_address


class CannotListen(Exception):
    """An address or TLS file that cannot be used. One line for the operator: a configuration error."""


class Receiver(Protocol):
    """A running receiver."""

    @property
    def port(self) -> int:
        """The port that was bound, also where the settings said 0."""

    def stop(self, grace_s: float) -> None:
        """Takes no new requests and returns when those that were accepted are answered, after grace_s at the latest."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    cert: Path
    key: Path


def allowed_address(setting: str, address: str, keys: Keyring) -> tuple[str, int]:
    """(host, port). Raises CannotListen for an address that is open to others while anybody may ingest."""
    try:
        host, port = split_address(address)
        open_to_others = not is_loopback(address)
    except ValueError as error:
        raise CannotListen(f"[receive] {setting} = {address!r}: {error}") from error
    if open_to_others and keys.ingest_is_open:
        raise CannotListen(f"[receive] {setting} = {address!r}: without a [[key]] that may ingest only loopback is served")
    return host, port


def tls_files(settings: ReceiveSettings) -> TlsFiles | None:
    """Both files, or None if neither is set. Raises CannotListen if only one is, or one cannot be read."""
    names = {"tls_cert_file": settings.tls_cert_file, "tls_key_file": settings.tls_key_file}
    if not any(names.values()):
        return None
    for setting, name in names.items():
        if not name:
            raise CannotListen(f"[receive] {setting} is not set, but the other TLS file is: TLS needs both")
        try:
            Path(name).read_bytes()
        except OSError as error:
            raise CannotListen(f"[receive] {setting} = {name!r}: {error.strerror}") from error
    return TlsFiles(Path(settings.tls_cert_file), Path(settings.tls_key_file))
