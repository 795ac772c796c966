"""The one settings model (CONTRACTS 4, `tokenpath.toml`). Frozen, unknown keys refused; built once in the CLI."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, field_validator, model_validator

from schemas.log import OWN_TOPICS

Principal = Annotated[str, StringConstraints(pattern=r"^(platform|tenant/[^\s/][^\s]{0,127})$")]
Permission = Literal["ingest", "read", "admin"]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoreSettings(Section):
    """`chdb:<path>` is the embedded engine, `http(s)://user@host:8123/database` a server. The password never stands in the URL."""

    url: str = "chdb:./tokenpath-data/store"
    password: SecretStr = SecretStr("")


class LogSettings(Section):
    """`sqlite:<file>` or `kafka://host:port[,host:port]`; TLS and SASL are Kafka's own words."""

    url: str = "sqlite:./tokenpath-data/log.sqlite"
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = ""
    sasl_username: str = ""
    sasl_password: SecretStr = SecretStr("")
    ssl_cafile: str = ""
    ssl_certfile: str = ""
    ssl_keyfile: str = ""


class ReceiveSettings(Section):
    grpc: str = "127.0.0.1:4317"
    http: str = "127.0.0.1:4318"
    max_body_bytes: int = Field(default=4_194_304, ge=1024, le=67_108_864)  # decompressed
    max_bodies_in_flight: int = Field(default=32, ge=1, le=4096)
    max_spans_per_body: int = Field(default=50_000, ge=1)
    max_attribute_keys_per_hour: int = Field(default=5_000, ge=100, le=1_000_000)  # different ones, of one sender
    keep_content: bool = False  # prompts and completions
    tls_cert_file: str = ""
    tls_key_file: str = ""
    platform_key_sha256: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64})?$")] = ""  # one platform key without a [[key]] table


class TopicSettings(Section):
    """A topic that an OpenTelemetry Collector writes: it carries no headers, so its sender is said here."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$")]  # as Kafka takes it
    signal: Literal["traces", "metrics"]
    principal: Principal


class ScrapeSettings(Section):
    """A Prometheus endpoint that is read; what it says is the platform's. `labels` become resource attributes."""

    job: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._/:-]{1,128}$")]
    url: Annotated[str, StringConstraints(max_length=2000)]
    interval_seconds: float = Field(default=15.0, ge=1, le=120)  # one missed scrape is no gap yet: pipeline/attribution/measures.py
    timeout_seconds: float = Field(default=10.0, gt=0)
    labels: Mapping[str, str] = Field(default_factory=dict)
    bearer_token_file: str = ""
    max_body_bytes: int = Field(default=16_777_216, ge=1024, le=268_435_456)
    max_samples: int = Field(default=50_000, ge=1, le=1_000_000)

    @property
    def instance(self) -> str:
        """`host:port`, as Prometheus names a target."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"

    @field_validator("url")
    @classmethod
    def is_an_endpoint(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(f"{url!r} is not http(s)://host:port/path")
        if parts.username or parts.password:
            raise ValueError("the URL holds a password: use bearer_token_file")
        return url

    @property
    def deadline_seconds(self) -> float:
        """A scrape ends before the next one."""
        return min(self.timeout_seconds, self.interval_seconds)


class LoaderSettings(Section):
    batch_bytes: int = Field(default=25_165_824, ge=1024, le=33_554_432)
    batch_spans: int = Field(default=200_000, ge=1, le=200_000)
    batch_seconds: float = Field(default=1.0, gt=0, le=60)
    dead_letter_ratio_max: float = Field(default=0.1, gt=0, le=1)
    dead_letter_run_max: int = Field(default=100, ge=1)


class AttributionSettings(Section):
    window_seconds: int = Field(default=900, ge=1, le=86_400)
    slot_ms: int = Field(default=1000, ge=1, le=60_000)
    grace_seconds: int = Field(default=300, ge=0)
    max_attempt_seconds: int = Field(default=3600, ge=1, le=86_400)
    max_span_age_days: int = Field(default=400, ge=1, le=400)
    keep_superseded_days: int = Field(default=7, ge=1)

    @model_validator(mode="after")
    def slots_divide_windows(self) -> "AttributionSettings":
        if (self.window_seconds * 1000) % self.slot_ms or 86_400 % self.window_seconds:
            raise ValueError("slot_ms must divide window_seconds, and window_seconds must divide a day")
        return self


class ServeSettings(Section):
    http: str = "127.0.0.1:8080"  # viewer and API
    clickhouse_http: str = "127.0.0.1:8123"


class KeySettings(Section):
    """`sha256` is the hex hash of the key; the key itself is printed once by `tokenpath keys new` and stored nowhere."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    principal: Principal
    may: tuple[Permission, ...] = ("ingest",)

    @model_validator(mode="after")
    def only_the_platform_administers(self) -> "KeySettings":
        if "admin" in self.may and self.principal != "platform":
            raise ValueError(f"a key of {self.principal} may not admin: an administrator sees and writes every tenant's rows")
        return self


class Settings(Section):
    store: StoreSettings = StoreSettings()
    log: LogSettings = LogSettings()
    receive: ReceiveSettings = ReceiveSettings()
    loader: LoaderSettings = LoaderSettings()
    attribution: AttributionSettings = AttributionSettings()
    serve: ServeSettings = ServeSettings()
    topic: tuple[TopicSettings, ...] = ()
    scrape: Annotated[tuple[ScrapeSettings, ...], Field(max_length=1000)] = ()
    key: tuple[KeySettings, ...] = ()

    @property
    def keys(self) -> tuple[KeySettings, ...]:
        """Every configured key."""
        if not self.receive.platform_key_sha256:
            return self.key
        return (*self.key, KeySettings(name="receive.platform_key_sha256", sha256=self.receive.platform_key_sha256, principal="platform"))

    @field_validator("key")
    @classmethod
    def names_are_unique(cls, keys: tuple[KeySettings, ...]) -> tuple[KeySettings, ...]:
        if len({key.name for key in keys}) != len(keys):
            raise ValueError("two keys have the same name")
        return keys

    @field_validator("scrape")
    @classmethod
    def targets_are_different(cls, targets: tuple[ScrapeSettings, ...]) -> tuple[ScrapeSettings, ...]:
        seen = {(target.job, target.url) for target in targets}
        if len(seen) != len(targets):
            raise ValueError("two targets have the same job and url")
        return targets

    @field_validator("topic")
    @classmethod
    def topics_are_others(cls, topics: tuple[TopicSettings, ...]) -> tuple[TopicSettings, ...]:
        names = [topic.name for topic in topics]
        if own := sorted(OWN_TOPICS.intersection(names)):
            raise ValueError(f"{own[0]} is Tokenpath's own topic, whose messages carry their sender; let the Collector write another one")
        if len(set(names)) != len(names):
            raise ValueError("two topics have the same name")
        return topics

    @model_validator(mode="after")
    def open_addresses_need_keys(self) -> "Settings":
        if any("ingest" in key.may for key in self.keys):
            return self
        for address in (self.receive.grpc, self.receive.http):
            if not is_loopback(address):
                raise ValueError(f"receiving on {address} needs at least one [[key]] that may ingest; without keys only loopback is served")
        return self


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port` to (host, port). Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """True for `localhost` and loopback IPs."""
    host, _ = split_address(address)
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
