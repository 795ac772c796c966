-- When the first of the messages came that the newest run of a window does not know, in the window or within max_attempt of it.
WITH mark AS (
    SELECT argMax(watermark, (recorded_at, run_id)) AS watermark
    FROM runs
    WHERE state IN ('published', 'unchanged') AND window_from = toDateTime(intDiv({window_from_ns:Int64}, 1000000000), 'UTC')
)
SELECT toInt64(min(received_ns)) AS since_ns
FROM arrivals
WHERE window_from > toDateTime(intDiv({window_from_ns:Int64} - {max_attempt_ns:Int64}, 1000000000) - 900, 'UTC')
    AND window_from < toDateTime(intDiv({window_from_ns:Int64} + {window_ns:Int64} + {max_attempt_ns:Int64}, 1000000000), 'UTC')
    AND log_offset >= (SELECT watermark FROM mark)[concat(topic, '/', toString(log_partition))]
