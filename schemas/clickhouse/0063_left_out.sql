-- Spans that no request shows, counted, per run. `reused_id`: another span has the same trace and span id (the platform's counts, else the
-- one received first); copies of one span are none. `ambiguous_id`: a tree of stages that more than one request may own.
CREATE TABLE IF NOT EXISTS left_out (
    window_from DateTime('UTC'),
    run_id UInt64,
    principal LowCardinality(String),
    reason Enum8('reused_id' = 1, 'ambiguous_id' = 2),
    spans UInt64
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id, principal, reason)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
