-- Every window that may have to be run, from the first with data until now: what it is like, and the newest run that read it.
-- fresh: a message above that run's watermark touches the window; near: one touches a window within max_attempt of it.
WITH tried AS (
    SELECT
        toInt64(toUnixTimestamp(window_from)) * 1000000000 AS at_ns,
        argMaxIf(toString(kind), (recorded_at, run_id), state != 'failed') AS kind,
        argMaxIf(watermark, (recorded_at, run_id), state != 'failed') AS watermark,
        max(toUnixTimestamp64Micro(recorded_at)) * 1000 AS tried_ns,
        maxIf(toUnixTimestamp64Micro(recorded_at), state = 'failed') * 1000 AS failed_ns
    FROM runs
    WHERE state != 'started'
    GROUP BY window_from
),
bounds AS (
    SELECT intDiv(toInt64(toUnixTimestamp(min(window_from))) * 1000000000, {window_ns:Int64}) * {window_ns:Int64} AS first_ns, count() AS arrived
    FROM arrivals
)
SELECT
    w.at_ns AS window_ns,
    any(t.kind) AS kind,
    any(t.tried_ns) AS tried_ns,
    any(t.failed_ns) AS failed_ns,
    max(w.touches) AS touched,
    max(w.touches AND w.newest_offset >= t.watermark[w.source]) AS fresh,
    max(w.told AND w.newest_offset >= t.watermark[w.source]) AS near,
    toInt64(if(
        fresh,
        maxIf(w.received_ns, w.touches AND w.newest_offset >= t.watermark[w.source]),
        maxIf(w.received_ns, w.told AND w.newest_offset >= t.watermark[w.source])
    )) AS received_ns
FROM (
    SELECT
        at_ns, source, newest_offset, received_ns,
        at_ns < cell_ns + 900000000000 AND at_ns + {window_ns:Int64} > cell_ns AS touches,
        1 AS told
    FROM (
        SELECT
            toInt64(toUnixTimestamp(window_from)) * 1000000000 AS cell_ns,
            concat(topic, '/', toString(log_partition)) AS source,
            max(log_offset) AS newest_offset,
            max(received_ns) AS received_ns
        FROM arrivals
        GROUP BY window_from, topic, log_partition
    )
    ARRAY JOIN range(
        intDiv(cell_ns - {max_attempt_ns:Int64}, {window_ns:Int64}) * {window_ns:Int64},
        cell_ns + 900000000000 + {max_attempt_ns:Int64},
        {window_ns:Int64}
    ) AS at_ns
    WHERE at_ns >= (SELECT first_ns FROM bounds) AND at_ns <= {now_ns:Int64}
    UNION ALL
    SELECT first_ns + toInt64(number) * {window_ns:Int64}, '', 0, 0, 0, 0
    FROM bounds
    ARRAY JOIN range(toUInt64(if(arrived = 0, 0, greatest(intDiv({now_ns:Int64} - first_ns, {window_ns:Int64}) + 1, 0)))) AS number
) AS w
LEFT JOIN tried AS t ON w.at_ns = t.at_ns
GROUP BY w.at_ns
HAVING near OR kind != 'closed'
ORDER BY window_ns
