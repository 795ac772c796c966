-- Per pool of a period: money, and for priced GPU replicas their time. A window of a replica that had a price for a part of it counts whole.
WITH published AS (
    SELECT window_from, argMax(run_id, (recorded_at, run_id)) AS run_id FROM runs
    WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')}
        AND window_from >= {from:DateTime('UTC')} AND window_from < {to:DateTime('UTC')}
    GROUP BY window_from
)
SELECT pool, sum(atoms) AS atoms, sumIf(capacity_ns, priced) AS capacity_ns, sumIf(idle_ns, priced) AS idle_ns
FROM (
    SELECT
        toString(p.pool) AS pool, p.resource AS resource,
        sum(p.atoms) AS atoms, sum(p.capacity_ns) AS capacity_ns, sum(p.idle_ns) AS idle_ns, max(p.priced) AS priced
    FROM pools AS p
    WHERE (p.window_from, p.run_id) IN published
    GROUP BY p.window_from, p.pool, p.resource
)
GROUP BY pool
ORDER BY pool
