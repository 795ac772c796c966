from tests.kafka_broker import kafka_broker

__all__ = ["kafka_broker"]
