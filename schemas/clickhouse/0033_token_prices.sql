-- tenant '' is the list price. One row per model and bucket.
CREATE TABLE IF NOT EXISTS token_prices (
    config_hash String,
    sku String,
    model String,
    tenant String,
    bucket LowCardinality(String),
    currency LowCardinality(String),
    usd_per_million_tokens Decimal(38, 12),
    from_ns Int64,
    to_ns Int64
) ENGINE = MergeTree ORDER BY (config_hash, model, tenant, bucket, from_ns)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 100
