-- What no tenant answers for is part of the whole, and of no selection.
SELECT l.pool AS pool, sum(l.atoms) / 1e12 AS cost, sum(l.atoms) / nullIf(sum(sum(l.atoms)) OVER (), 0) AS share
FROM leak_windows AS l
INNER JOIN current_runs AS c ON l.window_from = c.window_from AND l.run_id = c.run_id
WHERE l.window_from >= $__fromTime AND l.window_from < $__toTime
    AND $__conditionalAll(l.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(l.model IN (${model:singlequote}), $model)
GROUP BY pool
HAVING sum(l.atoms) != 0
ORDER BY cost DESC, pool
