-- Has the run metrics to read at all?
SELECT count() > 0 AS any_samples
FROM (
    SELECT 1 FROM samples
    WHERE at >= fromUnixTimestamp64Nano({read_from_ns:Int64}, 'UTC') AND at < fromUnixTimestamp64Nano({read_to_ns:Int64}, 'UTC')
    LIMIT 1
)
