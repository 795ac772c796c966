"""The second chance of a body that the engine refuses although it is protobuf: written again by the official classes.

The engine is stricter than protobuf in corners that no SDK uses (two members of one oneof, groups, a known field number
with another wire type). Only for refused bodies: all others stay untouched.
"""

from collections.abc import Mapping

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from pipeline.loading.envelope import Signal

REQUESTS: Mapping[Signal, type[Message]] = {"traces": ExportTraceServiceRequest, "metrics": ExportMetricsServiceRequest}


def normal_form(signal: Signal, body: bytes) -> bytes | None:
    """The same request without unknown fields, each field once; None where it is no such request."""
    try:
        request = REQUESTS[signal].FromString(body)
    except DecodeError:
        return None
    request.DiscardUnknownFields()
    return request.SerializeToString()
