SELECT
    replaceOne(w.measure, 'stage:', '') AS stage,
    floor(pow(1.01, quantileExactWeightedArray(0.5)(w.buckets, w.counts)) * 2 / 2.01) AS p50,
    floor(pow(1.01, quantileExactWeightedArray(0.99)(w.buckets, w.counts)) * 2 / 2.01) AS p99,
    sum(w.n) AS n,
    arrayStringConcat(arraySort(groupUniqArrayArray(w.quality)), ', ') AS `known as`
FROM latency_windows AS w
INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
    AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
    AND startsWith(w.measure, 'stage:')
GROUP BY stage
ORDER BY p99 DESC, stage
