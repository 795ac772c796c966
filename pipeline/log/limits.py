"""What both logs refuse before they touch a disk or a network."""

from collections.abc import Collection

from schemas.log import Headers, RecordTooLarge

HEADERS_BYTES_MAX = 65_536


def record_bytes_max(max_body_bytes: int) -> int:
    """Room for one record on the wire: body, headers, framing, and what a compressor adds to incompressible bytes."""
    return max_body_bytes + HEADERS_BYTES_MAX + max_body_bytes // 128 + 4_096


def check_record(topics: Collection[str], max_body_bytes: int, topic: str, headers: Headers, value: bytes) -> None:
    """Raises ValueError for a topic that was not named when the log was opened, RecordTooLarge beyond the limits."""
    if topic not in topics:
        raise ValueError(f"topic {topic!r} was not named when the log was opened")
    if len(value) > max_body_bytes:
        raise RecordTooLarge(f"topic {topic}: a value of {len(value)} bytes; at most {max_body_bytes} are taken")
    headers_bytes = sum(len(name.encode()) + len(text.encode()) for name, text in headers.items())
    if headers_bytes > HEADERS_BYTES_MAX:
        raise RecordTooLarge(f"topic {topic}: {headers_bytes} bytes of headers; at most {HEADERS_BYTES_MAX} are taken")
