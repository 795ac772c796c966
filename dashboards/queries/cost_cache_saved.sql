SELECT sum(w.saved_gross_atoms) / 1e12 AS saved
FROM tenant_windows AS w
INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
    AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
