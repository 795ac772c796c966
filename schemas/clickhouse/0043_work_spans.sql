-- Scratch of the one running attribution job: every span that it reads, once, as its profile rule reads it. `fields` holds
-- what is there: whole numbers as decimal text, booleans as 0 and 1; `told/<quality>/<stage>` is a duration told by an attribute.
-- `stage`: rank of the stage that the span's interval is, 0: none. Spans that no rule reads stay, because parents lead through them.
CREATE TABLE IF NOT EXISTS work_spans (
    trace_id FixedString(16),
    span_id FixedString(8),
    parent_span_id FixedString(8),
    principal LowCardinality(String),
    received_ns UInt64,
    started_ns Int64,
    ended_ns Nullable(Int64),
    role Enum8('none' = 0, 'request' = 1, 'inference' = 2, 'stage' = 3, 'attempt_hint' = 4, 'ignore' = 5),
    layer Enum8('none' = 0, 'client' = 1, 'gateway' = 2, 'router' = 3, 'engine' = 4, 'cache' = 5),
    stage UInt8,
    failed UInt8,
    delivery_proof UInt8,
    excludes_cache UInt8,
    sampled UInt8,
    skewed UInt8,
    sibling String,
    fields Map(LowCardinality(String), String),
    raw_usage Array(Tuple(attribute LowCardinality(String), field LowCardinality(String), tokens UInt64)),
    resource_key UInt64,
    resource Map(LowCardinality(String), String)
) ENGINE = MergeTree ORDER BY (trace_id, span_id)
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
