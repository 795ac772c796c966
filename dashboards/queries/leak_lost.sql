SELECT if(count() = 0, NULL, sumIf(l.atoms, l.class != 'useful') / 1e12) AS leaked
FROM leak_windows AS l
INNER JOIN current_runs AS c ON l.window_from = c.window_from AND l.run_id = c.run_id
WHERE l.window_from >= $__fromTime AND l.window_from < $__toTime
    AND $__conditionalAll(l.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(l.model IN (${model:singlequote}), $model)
