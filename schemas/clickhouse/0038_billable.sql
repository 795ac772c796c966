-- What a tenant pays for: one row per outcome and bucket that is charged.
CREATE TABLE IF NOT EXISTS billable (
    config_hash String,
    outcome LowCardinality(String),
    bucket LowCardinality(String)
) ENGINE = MergeTree ORDER BY (config_hash, outcome, bucket)
