-- Scratch of the one running attribution job: one row per segment and slot in which an attempt was live, with its money
-- and the pieces of attempts in it, by piece_no, with their weights.
CREATE TABLE IF NOT EXISTS work_slots (
    window_from DateTime('UTC'),
    replica LowCardinality(String),
    segment_from Int64,
    listed UInt8,
    slot Int64,
    capacity_ns UInt64,
    busy_ns UInt64,
    busy_atoms Int128,
    tier Enum8('B' = 2, 'C' = 3),
    pieces Array(UInt32),
    weights Array(Int128)
) ENGINE = MergeTree ORDER BY (replica, segment_from, slot)
