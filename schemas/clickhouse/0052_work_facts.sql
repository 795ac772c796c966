-- Scratch of the one running attribution job: request and inference spans, and stage spans that tell more than their interval.
-- `fields` holds what is there: whole numbers as decimal text, booleans as 0 and 1; `told/<quality>/<stage>` is a duration told by an
-- attribute.
CREATE TABLE IF NOT EXISTS work_facts (
    trace_id FixedString(16),
    span_id FixedString(8),
    parent_span_id FixedString(8),
    principal LowCardinality(String),
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
    resource_key UInt64,
    fields Map(LowCardinality(String), String),
    raw_usage Array(Tuple(attribute LowCardinality(String), field LowCardinality(String), tokens UInt64))
) ENGINE = MergeTree ORDER BY tuple()
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
