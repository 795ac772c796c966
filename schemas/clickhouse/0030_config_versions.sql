-- Immutable: the same files give the same hash, so loading them again adds nothing.
CREATE TABLE IF NOT EXISTS config_versions (
    config_hash String,
    recorded_at DateTime64(6, 'UTC'),
    currency LowCardinality(String),
    files Map(String, String)
) ENGINE = MergeTree ORDER BY (config_hash, recorded_at)
