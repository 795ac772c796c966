-- Scratch of the one running attribution job: platform spans that carry an id and have no request or call of the platform above them.
-- `ids`: the id in the forms in which a gateway may know it, the most literal first; `models`: names of the model, if it is told.
CREATE TABLE IF NOT EXISTS work_orphans (
    trace_id FixedString(16),
    span_id FixedString(8),
    parent_span_id FixedString(8),
    layer Enum8('none' = 0, 'client' = 1, 'gateway' = 2, 'router' = 3, 'engine' = 4, 'cache' = 5),
    started_ns Int64,
    ended_ns Int64,
    models Array(String),
    ids Array(Tuple(form UInt8, id String))
) ENGINE = MergeTree ORDER BY tuple()
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
