-- A version is immutable; a row here says when it became the newest (a version that comes back has a second row).
-- The newest as of X is argMax(config_hash, recorded_at) over recorded_at <= X. files: the texts that it was read from, secrets left out.
CREATE TABLE IF NOT EXISTS config_versions (
    config_hash String,
    recorded_at DateTime64(6, 'UTC'),
    currency LowCardinality(String),
    files Map(String, String)
) ENGINE = MergeTree ORDER BY (config_hash, recorded_at)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 100
