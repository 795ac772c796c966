-- Scratch of the one running attribution job: spans further out that hold an orphan's id within their interval, in one round of joining.
-- `around`: also without allowing for clocks; `crowded`: so many hold the id that nobody looked at their intervals.
CREATE TABLE IF NOT EXISTS work_matches (
    trace_id FixedString(16),
    span_id FixedString(8),
    layer Enum8('none' = 0, 'client' = 1, 'gateway' = 2, 'router' = 3, 'engine' = 4, 'cache' = 5),
    form UInt8,
    to_trace FixedString(16),
    to_span FixedString(8),
    to_request UInt8,
    around UInt8,
    crowded UInt8
) ENGINE = MergeTree ORDER BY tuple()
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
