-- Scratch of the one running attribution job.
CREATE TABLE IF NOT EXISTS work_blames AS blames ENGINE = MergeTree ORDER BY request_id
