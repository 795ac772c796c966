-- Busy time without an atom stood on replicas that have no price: its cost is unknown, not 0.
SELECT if(sum(w.fully_loaded_atoms) = 0 AND sum(w.busy_ns) > 0, NULL, sum(w.fully_loaded_atoms)) / 1e6 / nullIf(sum(w.useful_tokens), 0) AS cost
FROM tenant_windows AS w
INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
    AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
