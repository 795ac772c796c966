-- Scratch of the one running attribution job.
CREATE TABLE IF NOT EXISTS work_pools AS pools ENGINE = MergeTree ORDER BY (window_from, pool, resource)
