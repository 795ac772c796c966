-- Per model its busiest window: how long all its replicas together were busy in it, and how long the window is.
WITH published AS (
    SELECT r.window_from AS window_from, argMax(r.run_id, (r.recorded_at, r.run_id)) AS run_id, max(r.window_to) AS window_to
    FROM runs AS r
    WHERE r.state = 'published' AND r.recorded_at <= {as_of:DateTime64(6, 'UTC')}
        AND r.window_from >= {from:DateTime('UTC')} AND r.window_from < {to:DateTime('UTC')}
    GROUP BY r.window_from
)
SELECT model, busy.1 AS busy_ns, busy.2 AS window_ns
FROM (
    SELECT w.model AS model, argMax((w.busy_ns, w.window_ns), w.busy_ns / w.window_ns) AS busy
    FROM (
        SELECT
            transform(toString(p.resource), {replicas:Array(String)}, {models:Array(String)}, '') AS model,
            sum(p.busy_ns) AS busy_ns,
            any(toUInt64(s.window_to - s.window_from) * 1000000000) AS window_ns
        FROM pools AS p
        INNER JOIN published AS s ON s.window_from = p.window_from AND s.run_id = p.run_id
        WHERE p.pool = 'gpu'
        GROUP BY p.window_from, model
    ) AS w
    WHERE w.model != ''
    GROUP BY model
)
ORDER BY model
