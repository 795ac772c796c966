SELECT time, floor(pow(1.01, bucket[1]) * 2 / 2.01) AS p50, floor(pow(1.01, bucket[2]) * 2 / 2.01) AS p95, floor(pow(1.01, bucket[3]) * 2 / 2.01) AS p99
FROM (
    SELECT $__timeInterval(w.window_from) AS time, quantilesExactWeightedArray(0.5, 0.95, 0.99)(w.buckets, w.counts) AS bucket
    FROM latency_windows AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
        AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
        AND w.measure = 'ttft'
    GROUP BY time
)
ORDER BY time
