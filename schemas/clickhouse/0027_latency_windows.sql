-- Exact nearest-rank quantiles of one window, and a histogram of whole numbers for longer ranges: adding is its merge, so no order or
-- cut changes it. Bucket b counts durations in (1.01^(b-1), 1.01^b] ns; its middle, floor(1.01^b * 2 / 2.01), is off by at most 0.5% and
-- 1 ns.
-- A panel reads few measures and all tenants: the measure comes first.
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
    buckets Array(UInt16) CODEC(ZSTD),
    counts Array(UInt32) CODEC(ZSTD)
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (measure, window_from, run_id, tenant, model)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
