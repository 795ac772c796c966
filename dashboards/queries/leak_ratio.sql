SELECT sumIf(l.atoms, l.class != 'useful') / nullIf(sum(l.atoms), 0) AS ratio
FROM leak_windows AS l
INNER JOIN current_runs AS c ON l.window_from = c.window_from AND l.run_id = c.run_id
WHERE l.window_from >= $__fromTime AND l.window_from < $__toTime
    AND $__conditionalAll(l.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(l.model IN (${model:singlequote}), $model)
