-- Copies of the recorded spans as other traces, each copy `step_ns` later than the one before.
INSERT INTO spans
SELECT
    r.* REPLACE (
        sipHash128(r.trace_id, c.number) AS trace_id,
        fromUnixTimestamp64Nano(toUnixTimestamp64Nano(r.started_at) + toInt64(c.number) * {step_ns:Int64}, 'UTC') AS started_at,
        toStartOfHour(fromUnixTimestamp64Nano(toUnixTimestamp64Nano(r.started_at) + toInt64(c.number) * {step_ns:Int64}, 'UTC')) AS start_hour
    )
FROM recorded_spans AS r
CROSS JOIN numbers({from_copy:UInt64}, {copies:UInt64}) AS c
SETTINGS max_partitions_per_insert_block = 0
