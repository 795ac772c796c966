-- How spans of each serving stack are read (schemas/profiles). rank: the most specific rule of all that fit a span wins (lowest rank first).
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
