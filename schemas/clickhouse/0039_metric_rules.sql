-- How the metrics of each serving stack are read ([[metric]] of schemas/profiles). A rule reads the series of its metric that have all of
-- labels. rank: of the metrics that tell one quantity of one place the lowest rank is believed, the others are left out.
-- reads: of a number its value, of a histogram or summary its sum or count. micro_per_unit: to millionths of the quantity's unit.
-- *_keys: labels or resource attributes, the first with a value. once_roles, once_labels: what tells one measured thing from another
-- (both empty: every series is one). repeated_by: labels over which a figure is repeated.
CREATE TABLE IF NOT EXISTS metric_rules (
    config_hash String,
    profile LowCardinality(String),
    version UInt32,
    rule_no UInt16,
    rank UInt32,
    metric String,
    quantity LowCardinality(String),
    kind Enum8('counter' = 1, 'gauge' = 2, 'rate' = 3),
    unit LowCardinality(String),
    combine Enum8('sum' = 1, 'mean' = 2),
    reads Enum8('value' = 1, 'sum' = 2, 'count' = 3),
    of Enum8('replica' = 1, 'device' = 2, 'host' = 3, 'service' = 4),
    labels Map(String, String),
    micro_per_unit Float64,
    device_keys Array(String),
    host_keys Array(String),
    replica_keys Array(String),
    model_keys Array(String),
    once_roles Array(String),
    once_labels Array(String),
    repeated_by Array(String)
) ENGINE = MergeTree ORDER BY (config_hash, rank)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 100
