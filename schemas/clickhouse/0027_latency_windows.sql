-- Exact nearest-rank quantiles of one window, and a sketch whose merge does not depend on order for longer ranges.
CREATE TABLE IF NOT EXISTS latency_windows (
    window_from DateTime('UTC'),
    run_id UInt64,
    tenant LowCardinality(String),
    model LowCardinality(String),
    measure LowCardinality(String),
    n UInt64,
    p50_ns UInt64,
    p95_ns UInt64,
    p99_ns UInt64,
    p999_ns UInt64,
    sum_ns UInt64,
    quality Array(LowCardinality(String)),
    sketch AggregateFunction(quantilesDD(0.005, 0.5, 0.95, 0.99, 0.999), UInt64)
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id, tenant, model, measure)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
