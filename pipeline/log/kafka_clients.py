"""The one place where Kafka clients are built: every option that we rely on is written out, since defaults change.

kafka-python is imported by the `kafka*` modules of this package only, and those only for a `kafka://` URL.
"""

from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.range import RangePartitionAssignor

from pipeline.errors import ConfigurationError
from schemas.settings import LogSettings, split_address

REQUEST_TIMEOUT_MS = 8_000
DELIVERY_TIMEOUT_MS = 10_000
BATCH_BYTES = 1_048_576
FETCH_BYTES_MAX = 33_554_432


def addresses(settings: LogSettings) -> list[str]:
    """`kafka://host:port[,host:port]` as bootstrap servers. Raises ConfigurationError."""
    parts = settings.url.removeprefix("kafka://").rstrip("/").split(",")
    try:
        for part in parts:
            split_address(part)
    except ValueError as error:
        raise ConfigurationError(f"[log] url = {settings.url!r}: expected kafka://host:port[,host:port]; {error}") from error
    return parts


def connection_options(settings: LogSettings) -> dict[str, Any]:
    """What all three clients share. Raises ConfigurationError."""
    if settings.security_protocol.startswith("SASL") and not (settings.sasl_mechanism and settings.sasl_username):
        raise ConfigurationError(f"[log] security_protocol = {settings.security_protocol!r} needs sasl_mechanism and sasl_username")
    for key in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
        # The client would try again and again, and in the end call it a time-out.
        if (file := getattr(settings, key)) and not Path(file).is_file():
            raise ConfigurationError(f"[log] {key} = {file!r}: there is no such file")
    return {
        "bootstrap_servers": addresses(settings),
        "client_id": "tokenpath",
        "security_protocol": settings.security_protocol,
        "sasl_mechanism": settings.sasl_mechanism or None,
        "sasl_plain_username": settings.sasl_username or None,
        "sasl_plain_password": settings.sasl_password.get_secret_value() or None,
        "ssl_check_hostname": True,
        "ssl_cafile": settings.ssl_cafile or None,
        "ssl_certfile": settings.ssl_certfile or None,
        "ssl_keyfile": settings.ssl_keyfile or None,
        "bootstrap_timeout_ms": REQUEST_TIMEOUT_MS,
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "retry_backoff_ms": 100,
        "reconnect_backoff_ms": 50,
        "reconnect_backoff_max_ms": 1_000,
        "connections_max_idle_ms": 540_000,
        "max_in_flight_requests_per_connection": 5,
        "receive_message_max_bytes": 4 * FETCH_BYTES_MAX,
    }


def producer(settings: LogSettings, record_bytes_max: int) -> Any:
    """A producer whose `send(...).get()` means: written by all in-sync replicas."""
    return KafkaProducer(
        **{**connection_options(settings), "max_in_flight_requests_per_connection": 1},  # keeps the order when it retries
        acks="all",
        # kafka-python 3.0 loses its producer id when a batch expires between two tries, never asks for another, and sends
        # nothing any more. A retry may so append twice, as a sender's own retry may: the store keeps the first.
        enable_idempotence=False,
        compression_type="lz4",
        # Many threads wait for their own record each: what they send while a request is under way is the next batch.
        linger_ms=0,
        batch_size=min(BATCH_BYTES, record_bytes_max),
        max_request_size=record_bytes_max + BATCH_BYTES,
        max_block_ms=REQUEST_TIMEOUT_MS,
        delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
        allow_auto_create_topics=False,
        metadata_max_age_ms=60_000,
        metrics_enabled=False,
    )


def consumer(settings: LogSettings, group: str | None) -> Any:
    """A consumer that commits only what it is told to, and begins with the oldest record."""
    return KafkaConsumer(
        **connection_options(settings),
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        partition_assignment_strategy=(RangePartitionAssignor,),
        # A killed loader's partitions are free after this; its successor waits for that long.
        session_timeout_ms=10_000,
        heartbeat_interval_ms=3_000,
        max_poll_interval_ms=300_000,
        fetch_min_bytes=1,
        fetch_max_wait_ms=500,
        fetch_max_bytes=FETCH_BYTES_MAX,
        max_partition_fetch_bytes=FETCH_BYTES_MAX // 2,
        check_crcs=True,
        allow_auto_create_topics=False,
        metadata_max_age_ms=5_000,  # topics made by others are found this soon
        metrics_enabled=False,
    )


def admin(settings: LogSettings) -> Any:
    return KafkaAdminClient(**connection_options(settings), metadata_max_age_ms=60_000)
