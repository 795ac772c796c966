-- How spans of each serving stack are read (schemas/profiles). rank: of all rules that fit a span the lowest rank reads it, no other.
-- A rule fits when scope_names is empty or holds the span's scope, every pair of resource is in the span's resource, attribute is
-- empty or present on the span, and name is equal (name_is_prefix: a prefix).
-- stage: the span's own interval is this stage ('': the interval is no stage). stages: durations told by attributes.
-- keys: the first with a value counts (missing: absent, '', '-', 'null', negative); a key '=text' is no attribute but the value text itself.
-- ns_per_unit is 1 for what is no duration. delivery_proof: the span can show that a client left.
CREATE TABLE IF NOT EXISTS profile_rules (
    config_hash String,
    profile LowCardinality(String),
    version UInt32,
    rule_no UInt16,
    rank UInt32,
    scope_names Array(String),
    resource Map(String, String),
    attribute String,
    name String,
    name_is_prefix UInt8,
    role Enum8('request' = 1, 'inference' = 2, 'stage' = 3, 'attempt_hint' = 4, 'ignore' = 5),
    layer Enum8('client' = 1, 'gateway' = 2, 'router' = 3, 'engine' = 4, 'cache' = 5),
    stage LowCardinality(String),
    siblings_by String,
    delivery_proof UInt8,
    fields Array(Tuple(field String, keys Array(String), ns_per_unit Float64, includes_cache UInt8)),
    stages Array(Tuple(stage String, keys Array(String), ns_per_unit Float64, quality String))
) ENGINE = MergeTree ORDER BY (config_hash, rank)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 100
