-- How long a stage usually takes: the median over useful requests of one model, per unit, on one part of the time line (before or after
-- the first token; whole: where nobody knows when that came). A row exists only if at least 30 requests stand behind it.
-- Over all tenants, so tenants do not read it.
CREATE TABLE IF NOT EXISTS baselines (
    window_from DateTime('UTC'),
    run_id UInt64,
    model LowCardinality(String),
    part Enum8('before' = 1, 'after' = 2, 'whole' = 3),
    stage LowCardinality(String),
    unit Enum8('request' = 1, 'input_token' = 2, 'output_token' = 3),
    source Enum8('window' = 1, 'day' = 2),
    n UInt64,
    ps_per_unit UInt64
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id, model, part, stage)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
