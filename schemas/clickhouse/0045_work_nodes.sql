-- Scratch of the one running attribution job: request and inference spans, and the request that each belongs to (zeros: none).
-- `island`: the first of the sibling spans (n > 1) that are one run together with this one, else the span itself.
-- `outer`: a client's view of a whole request, from above its gateway span; never an attempt of its own.
CREATE TABLE IF NOT EXISTS work_nodes (
    trace_id FixedString(16),
    span_id FixedString(8),
    role Enum8('none' = 0, 'request' = 1, 'inference' = 2, 'stage' = 3, 'attempt_hint' = 4, 'ignore' = 5),
    layer Enum8('none' = 0, 'client' = 1, 'gateway' = 2, 'router' = 3, 'engine' = 4, 'cache' = 5),
    principal LowCardinality(String),
    started_ns Int64,
    ended_ns Int64,
    root FixedString(8),
    island FixedString(8),
    outer UInt8,
    foreign UInt8
) ENGINE = MergeTree ORDER BY tuple()
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
