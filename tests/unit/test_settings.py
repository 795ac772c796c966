"""The settings model: defaults are usable, unknown keys and dangerous combinations are refused."""

import pytest
from pydantic import ValidationError

from schemas.settings import Settings, is_loopback, split_address

KEY = {"name": "edge", "sha256": "0" * 64, "principal": "platform"}


def test_defaults_bind_loopback_only() -> None:
    settings = Settings()
    for address in (settings.receive.grpc, settings.receive.http, settings.serve.http, settings.serve.clickhouse_http):
        assert is_loopback(address)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"stor": {}}, "Extra inputs"),
        ({"store": {"uri": "x"}}, "Extra inputs"),
        ({"attribution": {"window_seconds": 1000}}, "must divide a day"),
        ({"attribution": {"slot_ms": 7000}}, "slot_ms must divide"),
        ({"receive": {"grpc": "0.0.0.0:4317"}}, r"at least one \[\[key\]\]"),
        ({"receive": {"http": "[::]:4318"}, "key": [{**KEY, "may": ["read"]}]}, r"at least one \[\[key\]\]"),
        ({"key": [KEY, KEY]}, "same name"),
        ({"key": [{**KEY, "sha256": "secret"}]}, "pattern"),
        ({"key": [{**KEY, "principal": "tenant/"}]}, "pattern"),
        ({"key": [{**KEY, "principal": "tenant/acme", "may": ["read", "admin"]}]}, "tenant/acme may not admin"),
        ({"key": [{**KEY, "may": ["everything"]}]}, "'ingest', 'read' or 'admin'"),
        ({"topic": [{"name": "t", "signal": "profiles", "principal": "platform"}]}, "'traces' or 'metrics'"),
        ({"topic": [{"name": "otlp_spans", "signal": "traces", "principal": "platform"}]}, "own topic"),
        ({"topic": [{"name": "t", "signal": "traces", "principal": "platform"}] * 2}, "same name"),
        ({"topic": [{"name": "a topic", "signal": "traces", "principal": "platform"}]}, "pattern"),
        ({"loader": {"batch_bytes": 10**9}}, "less than or equal"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Settings.model_validate(wrong)


def test_an_open_address_is_served_once_a_key_may_ingest() -> None:
    assert Settings.model_validate({"receive": {"grpc": "0.0.0.0:4317"}, "key": [KEY]}).receive.grpc == "0.0.0.0:4317"


def test_secrets_do_not_show_when_settings_are_printed() -> None:
    assert "hunter2" not in repr(Settings.model_validate({"store": {"password": "hunter2"}}))


@pytest.mark.parametrize(("address", "parts"), [("localhost:80", ("localhost", 80)), ("[::1]:4317", ("::1", 4317))])
def test_addresses_are_split_at_the_last_colon(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["localhost", ":80", "h:x", "h:70000"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(address)
