"""One sender with 100,000 tenant names or attribute keys: what that costs beside the same number of usual spans.

Keys come twice: through a receiver, whose limit drops most of them, and from a Collector's topic, where nothing stands before the
store. The peak of memory only rises, so each phase shows by how much it lies above the usual one. Raises RuntimeError where a span of
the usual sender is missing, or reads otherwise than before.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.edge import COUNTERS, Accepted, Edge
from pipeline.loading.loader import Loader
from pipeline.store.client import Store, open_store
from pipeline.store.migrate import migrate
from schemas.counters import Counters
from schemas.keys import PLATFORM, Identity, Keyring
from schemas.log import TRACES_TOPIC
from schemas.settings import Settings, StoreSettings, TopicSettings
from tests.bench.alone import memory_peak_bytes
from tests.memory_read_log import MemoryReadLog

COLLECTOR_TOPIC = "otlp_from_collector"
SPANS_PER_BODY = 500
USUAL, HOSTILE = Identity(PLATFORM, "usual"), Identity(PLATFORM, "hostile")
OTHERS_FIGURES = """
SELECT count(), sum(cityHash64(trace_id, span_id, attributes)), uniqExact(mapKeys(attributes)) FROM spans FINAL WHERE ingest_key = 'usual'
"""
STORED = """
SELECT count(), uniqExact(attributes['tokenpath.tenant.id']), uniqExactArray(mapKeys(attributes))
FROM spans FINAL
WHERE topic = {topic:String}
"""
Attributes = Callable[[int], dict[str, str]]


def measure(distinct: int = 100_000) -> dict[str, float]:
    """CPU seconds for a million spans of each kind, a span for each of `distinct` names, and the peaks of memory in bytes."""
    settings = Settings(topic=(TopicSettings(name=COLLECTOR_TOPIC, signal="traces", principal=PLATFORM),))
    with tempfile.TemporaryDirectory() as directory, closing(open_store(StoreSettings(url=f"chdb:{directory}/store"))) as store:
        migrate(store)
        log, counters = MemoryReadLog(), Counters(COUNTERS)
        edge = Edge(settings.receive, log, Keyring(()), time.time_ns, counters, "grpc")
        with closing(Loader(log, store, log, settings)) as loader:
            figures = _phase(loader, "usual", lambda: _receive(edge, USUAL, distinct, 0, lambda number: {"tokenpath.tenant.id": "acme"}))
            usual, peak = store.query(OTHERS_FIGURES).rows, memory_peak_bytes()
            figures |= _phase(
                loader, "tenants", lambda: _receive(edge, HOSTILE, distinct, 1, lambda number: {"tokenpath.tenant.id": f"t{number}"})
            )
            figures |= _phase(loader, "keys", lambda: _receive(edge, HOSTILE, distinct, 2, lambda number: {f"user.{number}": "1"}))
            figures["memory_above_usual"] = memory_peak_bytes() - peak
            figures |= _phase(loader, "collector_keys", lambda: _append(log, distinct, 3, lambda number: {f"user.{number}": "1"}))
            figures["memory_above_usual_collector"] = memory_peak_bytes() - peak
        if store.query(OTHERS_FIGURES).rows != usual:
            raise RuntimeError(f"the usual sender's spans were {usual}, they are {store.query(OTHERS_FIGURES).rows}")
        return figures | _stored(store, distinct, counters)


def _phase(loader: Loader, name: str, fill: Callable[[], int]) -> dict[str, float]:
    cpu = time.process_time()
    spans = fill()
    while loader.step(0.0).messages:
        pass
    return {f"{name}_cpu_us_per_span": 1e6 * (time.process_time() - cpu) / spans}


def _receive(edge: Edge, sender: Identity, spans: int, phase: int, attributes: Attributes) -> int:
    for body in _bodies(spans, phase, attributes):
        answer = edge.receive("traces", body, "protobuf", sender)
        edge.count("traces", answer)
        if not isinstance(answer, Accepted):
            raise RuntimeError(f"refused: {answer}")
    return spans


def _append(log: MemoryReadLog, spans: int, phase: int, attributes: Attributes) -> int:
    for body in _bodies(spans, phase, attributes):
        log.append(COLLECTOR_TOPIC, {}, body)
    return spans


def _bodies(spans: int, phase: int, attributes: Attributes) -> Iterator[bytes]:
    start_ns = time.time_ns() - 60 * 10**9
    for first in range(0, spans, SPANS_PER_BODY):
        request = ExportTraceServiceRequest()
        block = request.resource_spans.add()
        block.resource.attributes.add(key="service.name").value.string_value = "gateway"
        scope = block.scope_spans.add()
        for number in range(first, min(first + SPANS_PER_BODY, spans)):
            span = scope.spans.add(
                trace_id=(phase << 64 | number + 1).to_bytes(16, "big"), span_id=(number + 1).to_bytes(8, "big"), name="gateway"
            )
            span.start_time_unix_nano, span.end_time_unix_nano = start_ns + number, start_ns + number + 10**6
            span.attributes.add(key="tokenpath.stage").value.string_value = "gateway"
            for key, value in attributes(number).items():
                span.attributes.add(key=key).value.string_value = value
        yield request.SerializeToString()


def _stored(store: Store, distinct: int, counters: Counters) -> dict[str, float]:
    spans, tenants, keys = store.query(STORED, {"topic": TRACES_TOPIC}).rows[0]
    if spans != 3 * distinct:
        raise RuntimeError(f"{3 * distinct} spans were accepted, {spans} are stored")
    return {"tenants": tenants, "keys": keys, "dropped": counters.value("tokenpath_receiver_keys_over_limit_total")}


if __name__ == "__main__":
    print(measure())
