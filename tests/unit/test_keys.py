from schemas.keys import Identity, KeyRefused, Keyring, bearer_token, hash_key
from schemas.settings import KeySettings

GATEWAY = KeySettings(name="edge-gateway", sha256=hash_key("g-secret"), principal="platform", may=("ingest",))
ACME = KeySettings(name="acme", sha256=hash_key("a-secret"), principal="tenant/acme", may=("ingest", "read"))
READER = KeySettings(name="grafana", sha256=hash_key("r-secret"), principal="platform", may=("read",))


def reason(answer: Identity | KeyRefused) -> str:
    assert isinstance(answer, KeyRefused)
    return answer.reason


def test_a_key_names_its_principal() -> None:
    keys = Keyring([GATEWAY, ACME, READER])
    assert keys.authenticate("g-secret", "ingest") == Identity("platform", "edge-gateway")
    assert keys.authenticate("a-secret", "read") == Identity("tenant/acme", "acme")


def test_a_missing_an_unknown_and_an_unentitled_key_are_told_apart() -> None:
    keys = Keyring([GATEWAY, ACME, READER])
    assert reason(keys.authenticate(None, "ingest")) == "no_key"
    assert reason(keys.authenticate("", "ingest")) == "no_key"
    assert reason(keys.authenticate("g-secret ", "ingest")) == "unknown_key"
    assert reason(keys.authenticate(GATEWAY.sha256, "ingest")) == "unknown_key"
    assert reason(keys.authenticate("r-secret", "ingest")) == "not_allowed"
    assert reason(keys.authenticate("g-secret", "admin")) == "not_allowed"
    assert reason(keys.authenticate("\ud800", "ingest")) == "unknown_key"


def test_without_an_ingest_key_ingest_is_open_and_nothing_else_is() -> None:
    keys = Keyring([READER])
    assert keys.ingest_is_open
    assert keys.authenticate(None, "ingest") == Identity("platform", "")
    assert reason(keys.authenticate(None, "read")) == "no_key"
    assert reason(keys.authenticate(None, "admin")) == "no_key"


def test_only_a_bearer_token_is_a_key() -> None:
    assert bearer_token("Bearer abc") == "abc"
    assert bearer_token("bearer  abc ") == "abc"
    assert bearer_token("Basic abc") is None
    assert bearer_token("Bearer ") is None
    assert bearer_token(None) is None
