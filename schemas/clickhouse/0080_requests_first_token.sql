-- missed_slo: of the objectives that the request missed the one with the largest relative overrun; it decides which part of the time line
-- counts for the blame. stage_ttft_ns: the part of stage_ns before the first token (the same keys in the same order; empty: nobody knows when that came).
ALTER TABLE requests
    ADD COLUMN IF NOT EXISTS missed_slo Enum8('none' = 0, 'ttft' = 1, 'tpot' = 2, 'e2e' = 3),
    ADD COLUMN IF NOT EXISTS stage_ttft_ns Map(LowCardinality(String), UInt64)
