-- What one token costs a machine that runs the model: FLOP per new token, bytes of weights per step, bytes of KV per token of context.
CREATE TABLE IF NOT EXISTS model_constants (
    config_hash String,
    model String,
    precision LowCardinality(String),
    flop_per_token UInt64,
    weight_bytes UInt64,
    kv_bytes_per_token UInt64
) ENGINE = MergeTree ORDER BY (config_hash, model, precision)
