-- What no tenant answers for is part of the whole, and of no selection.
-- Busy time without an atom stood on replicas that have no price: its cost is unknown, not 0.
SELECT if(sum(atoms) = 0 AND sum(busy_ns) > 0, NULL, sum(atoms) / 1e12) AS spend
FROM (
    SELECT w.atoms AS atoms, w.busy_ns AS busy_ns
    FROM tenant_windows AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
        AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
    UNION ALL
    SELECT u.atoms AS atoms, u.busy_ns AS busy_ns
    FROM unallocated_windows AS u
    INNER JOIN current_runs AS c ON u.window_from = c.window_from AND u.run_id = c.run_id
    WHERE u.window_from >= $__fromTime AND u.window_from < $__toTime
        AND $__conditionalAll(1 = 0, $tenant) AND $__conditionalAll(1 = 0, $model)
)
HAVING count() > 0
