-- Scratch of the one running attribution job.
CREATE TABLE IF NOT EXISTS work_measures AS measures ENGINE = MergeTree ORDER BY (window_from, quantity)
