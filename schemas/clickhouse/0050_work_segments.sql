-- Scratch of the one running attribution job: stretches of a replica's life with one price and one set of constants.
-- segment_from is the stretch's true start (the zero of its money clock), segment_to is cut where the run's money ends.
CREATE TABLE IF NOT EXISTS work_segments (
    replica String,
    segment_from Int64,
    segment_to Int64,
    priced UInt8,
    currency LowCardinality(String),
    price_id String,
    atoms_per_hour Int128,
    flops_per_second UInt64,
    bytes_per_second UInt64,
    prefill_budget_tokens UInt32,
    flop_per_token UInt64,
    attention_flop_per_token UInt64,
    weight_bytes UInt64,
    kv_bytes_per_token UInt64,
    constants_known UInt8
) ENGINE = MergeTree ORDER BY (replica, segment_from)
