-- Scratch of the one running attribution job.
CREATE TABLE IF NOT EXISTS work_baselines AS baselines ENGINE = MergeTree ORDER BY (window_from, model, part, stage)
