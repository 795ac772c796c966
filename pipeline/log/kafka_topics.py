"""Topics of the Kafka log: made where they are missing, refused where they cannot take the largest record."""

from collections.abc import Sequence
from typing import Any

from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType

from pipeline.errors import ConfigurationError
from pipeline.log import kafka_clients as clients
from schemas.settings import LogSettings


def ensure_topics(settings: LogSettings, needed_bytes: int, topics: Sequence[str]) -> None:
    """Makes missing topics (the broker's default partitions and replicas). Raises KafkaError, or ConfigurationError for a
    topic that cannot take the largest record."""
    with clients.admin(settings) as client:
        missing = sorted(set(topics) - set(known_topics(client, topics)))
        for topic in missing:
            try:
                client.create_topics({topic: {"configs": topic_configs(needed_bytes)}}, wait_for_metadata=True)
            except errors.TopicAlreadyExistsError:
                continue  # another process was quicker
            except (errors.AuthorizationError, errors.PolicyViolationError, errors.InvalidReplicationFactorError) as error:
                raise ConfigurationError(
                    f"topic {topic} is missing and Kafka does not let us make it ({error}); make it with max.message.bytes={needed_bytes}"
                ) from error
        check_topics(client, needed_bytes, sorted(set(topics) - set(missing)))


def check_topics(client: Any, needed_bytes: int, topics: Sequence[str]) -> None:
    if not topics:
        return
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": None}) for topic in topics]
    found = client.describe_configs(resources, config_filter="all").get("topic", {})
    for topic, configs in found.items():
        # A user who may write but not describe gets no configs: then the broker's answer to a large record has to tell.
        if "max.message.bytes" in configs and int(configs["max.message.bytes"]["value"]) < needed_bytes:
            raise ConfigurationError(
                f"topic {topic} has max.message.bytes={configs['max.message.bytes']['value']}, [receive] max_body_bytes needs"
                f" {needed_bytes}: raise the one or lower the other"
            )


def topic_configs(record_bytes_max: int) -> dict[str, str]:
    return {"max.message.bytes": str(record_bytes_max), "compression.type": "producer"}


def known_topics(client: Any, topics: Sequence[str]) -> dict[str, list[int]]:
    """Topic -> partitions, of those topics that exist. Raises KafkaError."""
    found = client.describe_topics(list(topics))
    return {
        topic["name"]: sorted(partition["partition_index"] for partition in topic["partitions"])
        for topic in found
        if topic["error_code"] == 0
    }
