-- Which windows each log message touches: a window with an arrival above its run's watermark is dirty.
-- window_from is the 15-minute grid of the span's start and of its end; the job maps it to its own windows.
CREATE TABLE IF NOT EXISTS arrivals (
    window_from DateTime('UTC'),
    topic LowCardinality(String),
    log_partition Int32,
    log_offset Int64,
    spans UInt32,
    received_ns UInt64,
    first_wins UInt64 MATERIALIZED bitNot(received_ns)
) ENGINE = ReplacingMergeTree(first_wins) PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, topic, log_partition, log_offset)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
