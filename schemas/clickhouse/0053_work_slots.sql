-- Scratch of the one running attribution job: one row per segment and slot in which an attempt was live, with its money and,
-- for tier B, its two kinds of steps: `mixed_*` carry the prefill, `decode_*` the rest. Picoseconds.
CREATE TABLE IF NOT EXISTS work_slots (
    window_from DateTime('UTC'),
    replica String,
    segment_from Int64,
    listed UInt8,
    slot Int64,
    capacity_ns UInt64,
    busy_ns UInt64,
    busy_atoms Int128,
    tier Enum8('B' = 2, 'C' = 3),
    live_ns Int128,
    steps Int128,
    mixed_steps Int128,
    mixed_compute_ps Int128,
    mixed_kv_ps Int128,
    mixed_weights_ps Int128,
    decode_compute_ps Int128,
    decode_kv_ps Int128,
    decode_weights_ps Int128
) ENGINE = MergeTree ORDER BY (replica, segment_from, slot)
