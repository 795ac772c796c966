-- Scratch of the one running attribution job: which attempt each inference span shows (its leaf span that bills, of siblings the first).
CREATE TABLE IF NOT EXISTS work_calls (
    trace_id FixedString(16),
    span_id FixedString(8),
    root FixedString(8),
    attempt FixedString(8),
    island FixedString(8),
    foreign UInt8,
    outer UInt8
) ENGINE = MergeTree ORDER BY tuple()
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
