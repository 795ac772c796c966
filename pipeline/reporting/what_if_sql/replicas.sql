-- What each replica of the inventory did in the range, with its newest row and constants.
WITH published AS (
    SELECT window_from, argMax(run_id, (recorded_at, run_id)) AS run_id FROM runs
    WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')}
        AND window_from >= {from:DateTime('UTC')} AND window_from < {to:DateTime('UTC')}
    GROUP BY window_from
),
(
    SELECT argMax(config_hash, (window_from, recorded_at, run_id)) FROM runs
    WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')}
        AND window_from >= {from:DateTime('UTC')} AND window_from < {to:DateTime('UTC')}
) AS newest_hash,
held AS (
    SELECT
        replica, argMax(model, from_ns) AS model, argMax(gpu, from_ns) AS gpu, argMax(gpus, from_ns) AS gpus,
        argMax(precision, from_ns) AS precision, argMax(flops_per_second, from_ns) AS flops_per_second
    FROM inventory
    WHERE config_hash = newest_hash
        AND from_ns < toInt64(toUnixTimestamp({to:DateTime('UTC')})) * 1000000000
        AND to_ns > toInt64(toUnixTimestamp({from:DateTime('UTC')})) * 1000000000
    GROUP BY replica
),
constants AS (
    SELECT model, precision, any(flop_per_token) AS flop_per_token
    FROM model_constants
    WHERE config_hash = newest_hash
    GROUP BY model, precision
),
stood AS (
    SELECT toString(p.resource) AS replica, sum(p.busy_ns) AS busy_ns, sum(p.capacity_ns) AS capacity_ns, sum(p.atoms) AS atoms
    FROM pools AS p
    WHERE p.pool = 'gpu' AND (p.window_from, p.run_id) IN published
    GROUP BY replica
),
served AS (
    SELECT
        toString(a.replica) AS replica,
        count() AS attempts,
        countIf(isNotNull(a.best_hit_tokens) OR isNotNull(a.expected_hit_tokens)) AS told,
        sum(coalesce(a.input_tokens, 0)) AS input_tokens,
        sum(least(coalesce(a.input_cache_read_tokens, 0), coalesce(a.input_tokens, 0)) AS cached) AS cached_tokens,
        sum(least(greatest(cached, coalesce(a.best_hit_tokens, 0), coalesce(a.expected_hit_tokens, 0)), coalesce(a.input_tokens, 0))) AS reachable_tokens
    FROM attempts AS a
    WHERE a.replica != '' AND (a.window_from, a.run_id) IN published
    GROUP BY replica
)
SELECT
    h.replica AS replica, h.model AS model, h.gpu AS gpu, h.gpus AS gpus, h.precision AS precision, h.flops_per_second AS flops_per_second,
    c.flop_per_token AS flop_per_token, s.busy_ns AS busy_ns, s.capacity_ns AS capacity_ns, s.atoms AS atoms,
    a.attempts AS attempts, a.told AS told, a.input_tokens AS input_tokens, a.cached_tokens AS cached_tokens, a.reachable_tokens AS reachable_tokens
FROM held AS h
INNER JOIN stood AS s ON s.replica = h.replica
LEFT JOIN served AS a ON a.replica = h.replica
LEFT JOIN constants AS c ON c.model = h.model AND c.precision = h.precision
ORDER BY replica
