-- Price of one GPU for one hour in atoms (1e-12 of the currency), half open in time.
CREATE TABLE IF NOT EXISTS gpu_prices (
    config_hash String,
    price_id String,
    gpu String,
    currency LowCardinality(String),
    atoms_per_gpu_hour Int128,
    includes Array(LowCardinality(String)),
    from_ns Int64,
    to_ns Int64
) ENGINE = MergeTree ORDER BY (config_hash, gpu, from_ns)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 100
