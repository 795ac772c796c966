-- Append-only. One block with state 'published' makes all windows of a run visible at once.
CREATE TABLE IF NOT EXISTS runs (
    run_id UInt64,
    window_from DateTime('UTC'),
    window_to DateTime('UTC'),
    state Enum8('started' = 1, 'published' = 2, 'unchanged' = 3, 'failed' = 4),
    kind Enum8('closed' = 1, 'provisional' = 2),
    method LowCardinality(String),
    useful_policy LowCardinality(String),
    config_hash String,
    watermark Map(String, Int64),
    content_hash String,
    requests UInt64,
    attempts UInt64,
    pools_atoms Int128,
    ledger_atoms Int128,
    started_at DateTime64(6, 'UTC'),
    recorded_at DateTime64(6, 'UTC'),
    version String,
    error String
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
