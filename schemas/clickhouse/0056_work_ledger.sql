-- Scratch of the one running attribution job.
CREATE TABLE IF NOT EXISTS work_ledger AS ledger ENGINE = MergeTree ORDER BY (window_from, pool, resource, tenant, class, attempt_id)
