-- All of it, useful too: with every tenant and model selected this is the bill of the pools.
SELECT if(count() = 0, NULL, sum(l.atoms) / 1e12) AS spend
FROM leak_windows AS l
INNER JOIN current_runs AS c ON l.window_from = c.window_from AND l.run_id = c.run_id
WHERE l.window_from >= $__fromTime AND l.window_from < $__toTime
    AND $__conditionalAll(l.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(l.model IN (${model:singlequote}), $model)
