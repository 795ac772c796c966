-- What no tenant answers for directly: idle, unattributed, overhead, and the attempts' waste that the platform pays.
-- With the atoms of tenant_windows it sums to the ledger of the window, so that a report over months need not read the ledger.
CREATE TABLE IF NOT EXISTS unallocated_windows (
    window_from DateTime('UTC'),
    run_id UInt64,
    pool LowCardinality(String),
    class LowCardinality(String),
    busy_ns UInt64,
    atoms Int128
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id, pool, class)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
