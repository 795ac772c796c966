-- Scratch of the one running attribution job: what the prefix cache saved, an estimate outside the ledger. Only attempts whose cached
-- tokens, replica price and model constants are all known are in it; window_from is the window in which the prefill began.
CREATE TABLE IF NOT EXISTS work_savings (
    window_from DateTime('UTC'),
    tenant LowCardinality(String),
    model LowCardinality(String),
    cached_tokens UInt64,
    atoms Int128
) ENGINE = MergeTree ORDER BY (window_from, tenant, model)
