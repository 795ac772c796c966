-- '' matches every tenant or model; the most specific row wins (tenant + model, tenant, model, all). NULL: no objective.
CREATE TABLE IF NOT EXISTS slos (
    config_hash String,
    tenant String,
    model String,
    ttft_ns Nullable(UInt64),
    tpot_ns Nullable(UInt64),
    e2e_ns Nullable(UInt64),
    from_ns Int64,
    to_ns Int64
) ENGINE = MergeTree ORDER BY (config_hash, tenant, model, from_ns)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 100
