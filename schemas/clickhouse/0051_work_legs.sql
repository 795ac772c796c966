-- Scratch of the one running attribution job: the part [live_from, live_to) of an attempt's leg inside one segment and the run's windows.
-- listed 0: the inventory does not know the replica then. *_before and *_total are the attempt's prefill and decode ns, over all its legs.
-- piece_no follows (attempt_id, leg_no, live_from): splitting breaks ties by it.
CREATE TABLE IF NOT EXISTS work_legs (
    piece_no UInt32,
    replica LowCardinality(String),
    segment_from Int64,
    listed UInt8,
    attempt_id String,
    leg_no UInt16,
    live_from Int64,
    live_to Int64,
    leg_from Int64,
    prefill_to Int64,
    leg_to Int64,
    prefill_home UInt8,
    prefill_before Int64,
    prefill_total Int64,
    decode_before Int64,
    decode_total Int64,
    context_tokens Int64,
    prefill_tokens Int64,
    decode_tokens Int64,
    rough_weight Int128,
    roofline UInt8,
    flops_per_second UInt64,
    bytes_per_second UInt64,
    prefill_budget_tokens UInt32,
    flop_per_token UInt64,
    attention_flop_per_token UInt64,
    weight_bytes UInt64,
    kv_bytes_per_token UInt64
) ENGINE = MergeTree ORDER BY (replica, piece_no)
