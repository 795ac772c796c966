CREATE TABLE IF NOT EXISTS tenants (
    config_hash String,
    tenant String,
    name String,
    aliases Array(String),
    billing_account String,
    time_zone String
) ENGINE = MergeTree ORDER BY (config_hash, tenant)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 100
