-- Scratch of the one running attribution job: the series that a run reads, once per rule that reads them.
-- stream: points that follow one another as one counter or gauge. thing: streams that repeat one figure, of which one counts.
-- place: things for which one rule is chosen. fits: inventory rows (-keys asked for, replica, from_ns, to_ns), the best first.
CREATE TABLE IF NOT EXISTS work_series (
    metric LowCardinality(String),
    series_id UInt64,
    rank UInt32,
    quantity LowCardinality(String),
    kind Enum8('counter' = 1, 'gauge' = 2, 'rate' = 3),
    unit LowCardinality(String),
    combine Enum8('sum' = 1, 'mean' = 2),
    reads Enum8('value' = 1, 'sum' = 2, 'count' = 3),
    micro_per_unit Float64,
    stream UInt64,
    thing UInt64,
    place UInt64,
    service LowCardinality(String),
    host LowCardinality(String),
    device LowCardinality(String),
    model LowCardinality(String),
    own_name String,
    fits Array(Tuple(Int64, String, Int64, Int64))
) ENGINE = MergeTree ORDER BY (metric, series_id)
