SELECT
    w.started_at AS started,
    w.tenant AS tenant,
    w.model AS model,
    toString(w.outcome) AS outcome,
    w.e2e_ns AS e2e,
    w.ttft_ns AS TTFT,
    arrayElement(arraySort(entry -> (-entry.2, entry.1), CAST(w.stage_ns, 'Array(Tuple(String, UInt64))')), 1).1 AS `slowest stage`,
    arrayElement(arraySort(entry -> (-entry.2, entry.1), CAST(w.stage_ns, 'Array(Tuple(String, UInt64))')), 1).2 AS `slowest stage took`,
    lower(hex(w.trace_id)) AS trace
FROM requests AS w
INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
    AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
ORDER BY e2e DESC NULLS LAST, w.request_id
LIMIT 20
