-- Scratch of the one running attribution job: spans that get another trace or another parent, and for the sake of which orphan.
CREATE TABLE IF NOT EXISTS work_moves (
    trace_id FixedString(16),
    span_id FixedString(8),
    to_trace FixedString(16),
    to_parent FixedString(8),
    orphan_trace FixedString(16),
    orphan_span FixedString(8)
) ENGINE = MergeTree ORDER BY tuple()
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
