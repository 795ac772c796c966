-- Scratch of the one running attribution job: how many tokens an attempt of which nobody told can have made, where something bounds it.
CREATE TABLE IF NOT EXISTS work_bounds (
    trace_id FixedString(16),
    root FixedString(8),
    attempt FixedString(8),
    most_tokens UInt64
) ENGINE = MergeTree ORDER BY tuple()
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
