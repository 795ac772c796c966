-- Windows by state. dirty: a message above the watermark of the newest run that read the window touches it, or no run has read it yet.
-- A window counts as failed while its newest run failed.
WITH tried AS (
    SELECT
        r.window_from AS window_from,
        max(r.window_to) AS window_to,
        countIf(r.state = 'published') > 0 AS is_published,
        argMaxIf(toString(r.kind), (r.recorded_at, r.run_id), r.state = 'published') AS kind,
        argMaxIf(r.watermark, (r.recorded_at, r.run_id), r.state IN ('published', 'unchanged')) AS watermark,
        argMax(toString(r.state), (r.recorded_at, r.run_id)) = 'failed' AS has_failed
    FROM runs AS r
    WHERE r.state != 'started'
    GROUP BY r.window_from
),
cells AS (
    SELECT window_from AS cell, concat(topic, '/', toString(log_partition)) AS source, max(log_offset) AS newest_offset
    FROM arrivals
    GROUP BY window_from, topic, log_partition
),
covered AS (
    SELECT
        window_from, watermark,
        toDateTime(arrayJoin(range(
            intDiv(toUnixTimestamp(window_from), 900) * 900, toUnixTimestamp(window_to), 900)), 'UTC') AS cell
    FROM tried
)
SELECT
    (SELECT countIf(is_published AND kind = 'closed') FROM tried) AS published,
    (SELECT countIf(is_published AND kind = 'provisional') FROM tried) AS provisional,
    (SELECT uniqExactIf(v.window_from, c.newest_offset >= v.watermark[c.source]) FROM covered AS v INNER JOIN cells AS c ON v.cell = c.cell)
        + (SELECT uniqExact(cell) FROM cells WHERE cell NOT IN (SELECT cell FROM covered)) AS dirty,
    (SELECT countIf(has_failed) FROM tried) AS failed
