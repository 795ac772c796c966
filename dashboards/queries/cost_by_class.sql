-- What no tenant answers for is part of the whole, and of no selection.
SELECT class, sum(atoms) / 1e12 AS cost, sum(atoms) / nullIf(sum(sum(atoms)) OVER (), 0) AS share
FROM (
    SELECT w.window_from AS window_from, w.tenant AS tenant, entry.1 AS class, entry.2 AS atoms
    FROM (
        SELECT w.window_from AS window_from, w.run_id AS run_id, toString(w.tenant) AS tenant,
            arrayJoin(CAST(w.class_atoms, 'Array(Tuple(String, Int128))')) AS entry
        FROM tenant_windows AS w
        WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
            AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
            AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
    ) AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    UNION ALL
    SELECT u.window_from AS window_from, '' AS tenant, toString(u.class) AS class, u.atoms AS atoms
    FROM unallocated_windows AS u
    INNER JOIN current_runs AS c ON u.window_from = c.window_from AND u.run_id = c.run_id
    WHERE u.window_from >= $__fromTime AND u.window_from < $__toTime
        AND $__conditionalAll(1 = 0, $tenant) AND $__conditionalAll(1 = 0, $model)
)
GROUP BY class
HAVING sum(atoms) != 0
ORDER BY cost DESC, class
