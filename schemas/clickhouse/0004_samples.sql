-- Every data point of a metric once; the first receipt wins. Key: reads are by metric, then by series over time.
-- A histogram's bucket_counts has one entry more than bounds: bucket i holds values in (bounds[i - 1], bounds[i]].
CREATE TABLE IF NOT EXISTS samples (
    metric LowCardinality(String),
    series_id UInt64,
    at DateTime64(9, 'UTC'),
    start_at DateTime64(9, 'UTC'),
    kind Enum8('gauge' = 1, 'sum_delta' = 2, 'sum_cumulative' = 3, 'histogram_delta' = 4, 'histogram_cumulative' = 5, 'summary' = 6, 'exponential_histogram_delta' = 7, 'exponential_histogram_cumulative' = 8),
    unit LowCardinality(String),
    value Nullable(Float64),
    value_int Nullable(Int64),
    count Nullable(UInt64),
    sum Nullable(Float64),
    bounds Array(Float64),
    bucket_counts Array(UInt64),
    resource Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    principal LowCardinality(String),
    topic LowCardinality(String),
    log_partition Int32,
    log_offset Int64,
    received_ns UInt64,
    first_wins UInt64 MATERIALIZED bitNot(received_ns)
) ENGINE = ReplacingMergeTree(first_wins) PARTITION BY toYYYYMM(at) ORDER BY (metric, series_id, at, principal)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
