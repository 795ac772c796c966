-- The part of the time line that the objective measures; what is usual is the median of useful requests of the model.
SELECT
    transform(toString(b.measure), ['ttft', 'tpot', 'e2e'], ['TTFT', 'TPOT', 'end to end'], '') AS objective,
    b.stage AS `blamed on`,
    count() AS requests,
    count() / nullIf(sum(count()) OVER (PARTITION BY objective), 0) AS `of these`,
    if(sum(b.excess_ns) = 0, NULL, sum(b.excess_ns) / count()) AS `more than usual`
FROM blames AS b
INNER JOIN current_runs AS c ON b.window_from = c.window_from AND b.run_id = c.run_id
WHERE b.window_from >= $__fromTime AND b.window_from < $__toTime
    AND b.cause = 'slo'
    AND $__conditionalAll(b.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(b.model IN (${model:singlequote}), $model)
GROUP BY objective, `blamed on`
ORDER BY requests DESC, objective, `blamed on`
LIMIT 100
