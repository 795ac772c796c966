-- Scratch of the one running attribution job: bytes that an attempt moved over a kind of link (nvlink, switch, nic, egress). What no span
-- tells has no row; no packaged profile tells it yet, so that network money stays unattributed.
CREATE TABLE IF NOT EXISTS work_moved_bytes (
    attempt_id String,
    link LowCardinality(String),
    bytes UInt64
) ENGINE = MergeTree ORDER BY attempt_id
