-- Does a trace with a span above the watermark of a window's newest run also touch that window? Then its request there may have changed.
-- A trace may hold many requests: this may say yes too often (the run then finds nothing changed), never no wrongly.
WITH mark AS (
    SELECT argMax(watermark, (recorded_at, run_id)) AS watermark
    FROM runs
    WHERE state IN ('published', 'unchanged') AND window_from = toDateTime(intDiv({window_from_ns:Int64}, 1000000000), 'UTC')
)
SELECT count() > 0 AS reached
FROM (
    SELECT 1
    FROM spans
    WHERE start_hour >= toStartOfHour(toDateTime(intDiv({window_from_ns:Int64} - {max_attempt_ns:Int64}, 1000000000), 'UTC'))
        AND start_hour <= toDateTime(intDiv({window_from_ns:Int64} + {window_ns:Int64}, 1000000000), 'UTC')
        AND toUnixTimestamp64Nano(started_at) < {window_from_ns:Int64} + {window_ns:Int64}
        AND toUnixTimestamp64Nano(started_at) + ifNull(duration_ns, 0) >= {window_from_ns:Int64}
        AND trace_id IN (
            SELECT trace_id
            FROM spans
            WHERE start_hour >= toStartOfHour(toDateTime(intDiv({window_from_ns:Int64} - 2 * {max_attempt_ns:Int64}, 1000000000), 'UTC'))
                AND start_hour <= toDateTime(intDiv({window_from_ns:Int64} + {window_ns:Int64} + {max_attempt_ns:Int64}, 1000000000), 'UTC')
                AND log_offset >= (SELECT watermark FROM mark)[concat(topic, '/', toString(log_partition))]
        )
    LIMIT 1
)
