SELECT
    resource,
    sum(atoms) / 1e12 AS spend,
    sumIf(atoms, class != 'useful') / 1e12 AS leaked,
    sumIf(atoms, class != 'useful') / nullIf(sum(atoms), 0) AS `of spend`,
    if(leaked > 0, argMaxIf(class, (atoms, class, stage), class != 'useful'), NULL) AS `most as`,
    if(leaked > 0, argMaxIf(stage, (atoms, class, stage), class != 'useful'), NULL) AS `most at`
FROM (
    SELECT l.resource AS resource, l.class AS class, l.stage AS stage, sum(l.atoms) AS atoms
    FROM leak_windows AS l
    INNER JOIN current_runs AS c ON l.window_from = c.window_from AND l.run_id = c.run_id
    WHERE l.window_from >= $__fromTime AND l.window_from < $__toTime
        AND $__conditionalAll(l.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(l.model IN (${model:singlequote}), $model)
    GROUP BY resource, class, stage
)
GROUP BY resource
ORDER BY leaked DESC, spend DESC, resource
LIMIT 100
