SELECT time, quantiles[1] AS p50, quantiles[2] AS p95, quantiles[3] AS p99
FROM (
    SELECT $__timeInterval(w.window_from) AS time, quantilesDDMerge(0.005, 0.5, 0.95, 0.99, 0.999)(w.sketch) AS quantiles
    FROM latency_windows AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
        AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
        AND w.measure = 'ttft'
    GROUP BY time
)
ORDER BY time
