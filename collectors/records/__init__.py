"""Per-request records: spans that a stack wrote down in another format. Here they become OTLP spans; profiles read them like any others.

One module a format: does a row belong to it (`recognises`), and the call that it tells of (`call`). Each tells the facts of the
record under the record's own names and works out only what no profile can: times, the time to the first chunk, whether an
inference was begun at all, whether the client left.
"""

from collectors.records import dynamo, envoy, litellm, sglang
from collectors.records.call import Call, Format, IsContent, NotARecord
from collectors.records.fields import Row

FORMATS: dict[str, Format] = {"dynamo": dynamo, "sglang": sglang, "litellm": litellm, "envoy": envoy}


def format_of(row: Row) -> Format | None:
    """The format that the row's fields show; None where it is none of ours."""
    return next((one for one in FORMATS.values() if one.recognises(row)), None)


def call_of(row: Row, is_content: IsContent, forced: Format | None = None) -> Call:
    """Raises NotARecord where nothing can be made of the row, NotACall where it tells of something else."""
    found = forced or format_of(row)
    if found is None:
        raise NotARecord(f"this is no record of {', '.join(FORMATS)}; its fields are {', '.join(list(row)[:8]) or 'none'}")
    return found.call(row, is_content)
