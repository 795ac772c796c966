-- What one token costs a machine that runs the model: FLOP per new token, and per new token and token of its context (attention), bytes of
-- weights per step, bytes of KV per token of context.
-- One row per name of a model (id, aliases, the user's own names) and precision.
CREATE TABLE IF NOT EXISTS model_constants (
    config_hash String,
    model String,
    precision LowCardinality(String),
    flop_per_token UInt64,
    attention_flop_per_token UInt64,
    weight_bytes UInt64,
    kv_bytes_per_token UInt64
) ENGINE = MergeTree ORDER BY (config_hash, model, precision)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 100
