SELECT time, stage, sum_ns / nullIf(sum(if(stage = 'e2e', n, 0)) OVER (PARTITION BY time), 0) AS mean_ns
FROM (
    SELECT $__timeInterval(w.window_from) AS time, replaceOne(w.measure, 'stage:', '') AS stage, sum(w.sum_ns) AS sum_ns, sum(w.n) AS n
    FROM latency_windows AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
        AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
        AND (startsWith(w.measure, 'stage:') OR w.measure = 'e2e')
    GROUP BY time, stage
)
QUALIFY stage != 'e2e'
ORDER BY time, stage
