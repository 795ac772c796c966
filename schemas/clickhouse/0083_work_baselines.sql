-- Scratch of the one running attribution job; the windows are those of the run.
CREATE TABLE IF NOT EXISTS work_baselines AS baselines ENGINE = MergeTree ORDER BY (model, part, stage)
