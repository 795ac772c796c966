-- What a tenant pays for: one row per outcome and bucket that is charged ('all' is written out as every bucket).
CREATE TABLE IF NOT EXISTS billable (
    config_hash String,
    outcome LowCardinality(String),
    bucket LowCardinality(String)
) ENGINE = MergeTree ORDER BY (config_hash, outcome, bucket)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 100
