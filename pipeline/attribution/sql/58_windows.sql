-- Every window that may have to be run, from the first with data until now: what it is like, and the newest run that read it.
-- fresh: a message above that run's watermark touches the window; near: one touches a window within max_attempt of it, whose requests may.
-- received, since: when the last and the first of that news came (since: only for windows that a closed run has read, else 0).
-- held: the inventory has a replica then, which costs even if nobody used it.
WITH cells AS (
    SELECT
        toInt64(toUnixTimestamp(window_from)) * 1000000000 AS cell_ns,
        concat(topic, '/', toString(log_partition)) AS source,
        max(log_offset) AS newest_offset,
        max(received_ns) AS received_ns
    FROM arrivals
    GROUP BY window_from, topic, log_partition
),
bounds AS (
    SELECT intDiv(min(cell_ns), {window_ns:Int64}) * {window_ns:Int64} AS first_ns, count() AS cells_seen FROM cells
),
reach AS (
    SELECT
        at_ns,
        source,
        maxIf(newest_offset, touches) AS newest_touching,
        maxIf(received_ns, touches) AS received_touching_ns,
        max(newest_offset) AS newest_near,
        max(received_ns) AS received_near_ns,
        max(touches) AS touched
    FROM (
        SELECT
            source, newest_offset, received_ns, at_ns,
            at_ns < cell_ns + 900000000000 AND at_ns + {window_ns:Int64} > cell_ns AS touches
        FROM cells
        ARRAY JOIN range(
            intDiv(cell_ns - {max_attempt_ns:Int64}, {window_ns:Int64}) * {window_ns:Int64},
            cell_ns + 900000000000 + {max_attempt_ns:Int64},
            {window_ns:Int64}
        ) AS at_ns
    )
    GROUP BY at_ns, source
),
tried AS (
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
messages AS (
    SELECT
        r.at_ns AS at_ns,
        any(t.kind) AS kind,
        max(r.touched) AS touched,
        max(r.touched AND r.newest_touching >= t.watermark[r.source]) AS fresh,
        max(r.newest_near >= t.watermark[r.source]) AS near,
        maxIf(r.received_touching_ns, r.touched AND r.newest_touching >= t.watermark[r.source]) AS fresh_received_ns,
        maxIf(r.received_near_ns, r.newest_near >= t.watermark[r.source]) AS near_received_ns
    FROM reach AS r
    LEFT JOIN tried AS t ON r.at_ns = t.at_ns
    GROUP BY r.at_ns
),
waiting AS (
    SELECT n.at_ns AS at_ns, min(n.received_ns) AS since_ns
    FROM (
        SELECT
            log_offset, received_ns,
            concat(topic, '/', toString(log_partition)) AS source,
            toInt64(toUnixTimestamp(window_from)) * 1000000000 AS cell_ns,
            arrayJoin(range(
                intDiv(cell_ns - {max_attempt_ns:Int64}, {window_ns:Int64}) * {window_ns:Int64},
                cell_ns + 900000000000 + {max_attempt_ns:Int64},
                {window_ns:Int64}
            )) AS at_ns
        FROM arrivals
        WHERE window_from >= toDateTime(
            intDiv((SELECT if(count() = 0, 4000000000000000000, min(at_ns)) FROM messages WHERE near AND kind = 'closed') - {max_attempt_ns:Int64} - 900000000000, 1000000000), 'UTC'
        )
    ) AS n
    INNER JOIN tried AS t ON n.at_ns = t.at_ns
    WHERE t.kind = 'closed' AND n.log_offset >= t.watermark[n.source]
    GROUP BY n.at_ns
),
every AS (
    SELECT first_ns + toInt64(number) * {window_ns:Int64} AS at_ns
    FROM bounds
    ARRAY JOIN range(toUInt64(if(cells_seen = 0, 0, greatest(intDiv({now_ns:Int64} - first_ns, {window_ns:Int64}) + 1, 0)))) AS number
),
held AS (
    SELECT DISTINCT e.at_ns AS at_ns
    FROM every AS e
    CROSS JOIN (SELECT from_ns, to_ns FROM inventory WHERE config_hash = {config_hash:String}) AS i
    WHERE i.from_ns < e.at_ns + {window_ns:Int64} AND i.to_ns > e.at_ns
)
SELECT
    e.at_ns AS window_ns,
    t.kind AS kind,
    t.tried_ns AS tried_ns,
    t.failed_ns AS failed_ns,
    m.touched AS touched,
    m.fresh AS fresh,
    m.near AS near,
    toInt64(if(m.fresh, m.fresh_received_ns, m.near_received_ns)) AS received_ns,
    toInt64(w.since_ns) AS since_ns,
    e.at_ns IN (SELECT at_ns FROM held) AS held
FROM every AS e
LEFT JOIN messages AS m ON e.at_ns = m.at_ns
LEFT JOIN tried AS t ON e.at_ns = t.at_ns
LEFT JOIN waiting AS w ON e.at_ns = w.at_ns
WHERE m.near OR t.kind != 'closed'
ORDER BY window_ns
