-- Scratch of the one running attribution job: requests that are to be blamed on a stage, why, and for what.
CREATE TABLE IF NOT EXISTS work_suspects (
    request_id String,
    cause Enum8('slo' = 1, 'tail' = 2),
    measure Enum8('ttft' = 1, 'tpot' = 2, 'e2e' = 3)
) ENGINE = MergeTree ORDER BY request_id
