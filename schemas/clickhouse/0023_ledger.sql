-- Where every atom of the pools went. window_from is the window of the slot, not of the request. One row per (window, pool, resource, attempt, class).
CREATE TABLE IF NOT EXISTS ledger (
    window_from DateTime('UTC'),
    run_id UInt64,
    pool Enum8('gpu' = 1, 'power' = 2, 'network' = 3, 'kv_storage' = 4, 'gateway' = 5, 'overhead' = 6),
    resource LowCardinality(String),
    tenant LowCardinality(String),
    model LowCardinality(String),
    class Enum8('useful' = 1, 'late' = 2, 'aborted' = 3, 'failed' = 4, 'superseded' = 5, 'blocked' = 6, 'unmetered' = 7,
                'overgenerated' = 8, 'recompute' = 9, 'rejected_draft' = 10, 'affinity_miss' = 11, 'unattributed' = 12,
                'platform_waste' = 13, 'idle_reserved' = 14, 'idle' = 15, 'overhead' = 16),
    stage Enum8('other' = 0, 'gateway' = 1, 'auth' = 2, 'tokenize' = 3, 'route' = 4, 'schedule' = 5, 'kv_cache' = 6, 'prefill' = 7,
                'decode' = 8, 'kernel' = 9, 'hbm' = 10, 'nvlink' = 11, 'switch' = 12, 'nic' = 13, 'stream' = 14, 'settle' = 15),
    payer Enum8('tenant' = 1, 'platform' = 2),
    tier Enum8('none' = 0, 'A' = 1, 'B' = 2, 'C' = 3),
    request_id String,
    attempt_id String,
    busy_ns UInt64,
    atoms Int128
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id, pool, resource, tenant, class, attempt_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
