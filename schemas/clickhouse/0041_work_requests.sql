-- Scratch of the one running attribution job.
CREATE TABLE IF NOT EXISTS work_requests AS requests ENGINE = MergeTree ORDER BY request_id
