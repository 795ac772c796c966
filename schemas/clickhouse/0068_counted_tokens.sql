-- Rollup: tokens that an engine's counters counted in a window, and those of them that attempts account for (the rest left no span:
-- aborted or unsampled requests, traffic past the gateway). Only where the counters cover nine tenths of the window.
CREATE TABLE IF NOT EXISTS counted_tokens (
    window_from DateTime('UTC'),
    run_id UInt64,
    replica LowCardinality(String),
    quantity Enum8('prompt_tokens' = 1, 'generation_tokens' = 2),
    counted UInt64,
    accounted UInt64
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id, replica, quantity)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
