SELECT $__timeInterval(l.window_from) AS time, if(l.class IN ('idle', 'idle_reserved', 'unattributed'), l.class, l.stage) AS band, sum(l.atoms) / 1e12 AS cost
FROM leak_windows AS l
INNER JOIN current_runs AS c ON l.window_from = c.window_from AND l.run_id = c.run_id
WHERE l.window_from >= $__fromTime AND l.window_from < $__toTime
    AND $__conditionalAll(l.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(l.model IN (${model:singlequote}), $model)
    AND l.class != 'useful'
GROUP BY time, band
ORDER BY time, band
