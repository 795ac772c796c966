-- What a resource cost in a window, and how its time divides: capacity = busy + platform + idle, atoms likewise.
CREATE TABLE IF NOT EXISTS pools (
    window_from DateTime('UTC'),
    run_id UInt64,
    pool Enum8('gpu' = 1, 'power' = 2, 'network' = 3, 'kv_storage' = 4, 'gateway' = 5, 'overhead' = 6),
    resource LowCardinality(String),
    currency LowCardinality(String),
    price_id String,
    priced UInt8,
    capacity_ns UInt64,
    busy_ns UInt64,
    platform_ns UInt64,
    idle_ns UInt64,
    atoms Int128,
    busy_atoms Int128,
    platform_atoms Int128,
    idle_atoms Int128
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id, pool, resource)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
