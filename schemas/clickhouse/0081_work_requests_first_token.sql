-- Scratch of the one running attribution job: the same columns as requests.
ALTER TABLE work_requests
    ADD COLUMN IF NOT EXISTS missed_slo Enum8('none' = 0, 'ttft' = 1, 'tpot' = 2, 'e2e' = 3),
    ADD COLUMN IF NOT EXISTS stage_ttft_ns Map(LowCardinality(String), UInt64)
