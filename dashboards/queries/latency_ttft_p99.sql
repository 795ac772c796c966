SELECT floor(pow(1.01, quantileExactWeightedArray(0.99)(w.buckets, w.counts)) * 2 / 2.01) AS p99
FROM latency_windows AS w
INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
    AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
    AND w.measure = 'ttft'
HAVING sum(w.n) > 0
