-- Which replicas exist, from when to when ([from_ns, to_ns), unix ns; open: 2^63-1). match is never empty.
-- flops_per_second and bytes_per_second: of all its GPUs, as they really run (data sheet x efficiency); both 0: gpu or model unknown, tier C.
CREATE TABLE IF NOT EXISTS inventory (
    config_hash String,
    replica String,
    match Map(String, String),
    model String,
    gpu String,
    gpus UInt16,
    precision LowCardinality(String),
    flops_per_second UInt64,
    bytes_per_second UInt64,
    prefill_budget_tokens UInt32,
    reserved_tenant String,
    reserved_gpus UInt16,
    from_ns Int64,
    to_ns Int64
) ENGINE = MergeTree ORDER BY (config_hash, replica, from_ns)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 100
