-- The stage that a slow request is blamed on, and by how much each compared stage took longer than usual. cause `slo`: it missed this
-- objective (of several the one with the largest overrun); `tail`: it is of the slowest hundredth of its window, tenant and model.
-- `compared`: stages with a baseline; 0: nothing is known about what is usual, `stage` is other.
CREATE TABLE IF NOT EXISTS blames (
    window_from DateTime('UTC'),
    run_id UInt64,
    request_id String,
    tenant LowCardinality(String),
    model LowCardinality(String),
    cause Enum8('slo' = 1, 'tail' = 2),
    measure Enum8('ttft' = 1, 'tpot' = 2, 'e2e' = 3),
    stage LowCardinality(String),
    excess_ns UInt64,
    excesses Map(LowCardinality(String), UInt64),
    compared UInt8
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id, cause, tenant, request_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
