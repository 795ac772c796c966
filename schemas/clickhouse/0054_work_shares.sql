-- Scratch of the one running attribution job: what each attempt got of a replica's busy slots in a window. attempt_id '': nobody's.
CREATE TABLE IF NOT EXISTS work_shares (
    window_from DateTime('UTC'),
    replica String,
    attempt_id String,
    tier Enum8('none' = 0, 'B' = 2, 'C' = 3),
    busy_ns UInt64,
    atoms Int128
) ENGINE = MergeTree ORDER BY attempt_id
