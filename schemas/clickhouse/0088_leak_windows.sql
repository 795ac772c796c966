-- Where money leaks: the ledger of a window by who, on what, for what (class) and at which step of the path (stage). Its atoms are the
-- ledger's. tenant '': nobody's.
CREATE TABLE IF NOT EXISTS leak_windows (
    window_from DateTime('UTC'),
    run_id UInt64,
    pool LowCardinality(String),
    resource LowCardinality(String),
    tenant LowCardinality(String),
    model LowCardinality(String),
    class LowCardinality(String),
    stage LowCardinality(String),
    payer LowCardinality(String),
    busy_ns UInt64,
    atoms Int128
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id, tenant, model, class, stage, pool, resource)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
