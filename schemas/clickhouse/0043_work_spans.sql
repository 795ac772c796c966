-- Scratch of the one running attribution job: every span that it reads, once. `stage`: rank of the stage that the span's interval is,
-- 0: none. Spans that no rule reads stay, because parents lead through them. `slots` and `texts`: attributes that the span's rule reads
-- (pipeline/attribution/readings.py). `resource`: of engine spans only.
CREATE TABLE IF NOT EXISTS work_spans (
    trace_id FixedString(16),
    span_id FixedString(8),
    parent_span_id FixedString(8),
    principal LowCardinality(String),
    received_ns UInt64,
    started_ns Int64,
    ended_ns Nullable(Int64),
    rule UInt32,
    role Enum8('none' = 0, 'request' = 1, 'inference' = 2, 'stage' = 3, 'attempt_hint' = 4, 'ignore' = 5),
    stage UInt8,
    failed UInt8,
    sampled UInt8,
    skewed UInt8,
    sibling String,
    resource_key UInt64,
    resource Map(LowCardinality(String), String),
    slots Array(UInt32),
    texts Array(String)
) ENGINE = MergeTree ORDER BY tuple()
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
