-- Scratch of the one running attribution job: every attempt that its spans show, also those of neighbouring windows that are live in these.
CREATE TABLE IF NOT EXISTS work_attempts AS attempts ENGINE = MergeTree ORDER BY (replica, attempt_id)
