-- Scratch of the one running attribution job.
CREATE TABLE IF NOT EXISTS work_left_out AS left_out ENGINE = MergeTree ORDER BY (window_from, principal, reason)
