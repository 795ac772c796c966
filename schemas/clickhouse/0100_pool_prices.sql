-- Prices of pools besides GPU time, half open in time. atoms is what one `basis` of the whole row costs: an hour, a month (UTC), a kWh
-- (with PUE), a GiB. replicas, gpus: which it is for, empty = all. hours: local hours of the day in time_zone in which it holds, empty = all.
-- kind: the link of network, the tier of kv_storage, the kind of overhead. Of pool power the resource is the replica, and '' here.
CREATE TABLE IF NOT EXISTS pool_prices (
    config_hash String,
    pool Enum8('gpu' = 1, 'power' = 2, 'network' = 3, 'kv_storage' = 4, 'gateway' = 5, 'overhead' = 6),
    resource String,
    kind LowCardinality(String),
    price_id String,
    currency LowCardinality(String),
    basis Enum8('hour' = 1, 'month' = 2, 'kwh' = 3, 'gib' = 4),
    atoms Int128,
    replicas Array(String),
    gpus Array(String),
    time_zone String,
    hours Array(UInt8),
    from_ns Int64,
    to_ns Int64
) ENGINE = MergeTree ORDER BY (config_hash, pool, resource, from_ns)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 100
