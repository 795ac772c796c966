-- What no tenant answers for is part of the whole, and of no selection.
SELECT 1 - sum(useful) / nullIf(sum(atoms), 0) AS waste
FROM (
    SELECT w.atoms AS atoms, w.class_atoms['useful'] AS useful
    FROM tenant_windows AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
        AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
    UNION ALL
    SELECT u.atoms AS atoms, toInt128(0) AS useful
    FROM unallocated_windows AS u
    INNER JOIN current_runs AS c ON u.window_from = c.window_from AND u.run_id = c.run_id
    WHERE u.window_from >= $__fromTime AND u.window_from < $__toTime
        AND $__conditionalAll(1 = 0, $tenant) AND $__conditionalAll(1 = 0, $model)
)
