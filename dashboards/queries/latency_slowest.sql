SELECT
    s.started_at AS started,
    s.tenant AS tenant,
    s.model AS model,
    toString(s.outcome) AS outcome,
    s.e2e_ns AS e2e,
    s.ttft_ns AS TTFT,
    arrayElement(arraySort(entry -> (-entry.2, entry.1), CAST(s.stage_ns, 'Array(Tuple(String, UInt64))')), 1).1 AS `slowest stage`,
    arrayElement(arraySort(entry -> (-entry.2, entry.1), CAST(s.stage_ns, 'Array(Tuple(String, UInt64))')), 1).2 AS `slowest stage took`,
    nullIf(b.stage, '') AS `late because of`,
    lower(hex(s.trace_id)) AS trace
FROM (
    SELECT w.window_from AS window_from, w.run_id AS run_id, w.request_id AS request_id, w.started_at AS started_at, w.tenant AS tenant,
        w.model AS model, w.outcome AS outcome, w.e2e_ns AS e2e_ns, w.ttft_ns AS ttft_ns, w.stage_ns AS stage_ns, w.trace_id AS trace_id
    FROM requests AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
        AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
    ORDER BY e2e_ns DESC NULLS LAST, w.request_id
    LIMIT 20
) AS s
LEFT JOIN (
    SELECT l.window_from AS window_from, l.run_id AS run_id, l.request_id AS request_id, l.stage AS stage
    FROM blames AS l
    WHERE l.cause = 'slo' AND l.window_from >= $__fromTime AND l.window_from < $__toTime
        AND $__conditionalAll(l.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(l.model IN (${model:singlequote}), $model)
) AS b ON s.window_from = b.window_from AND s.run_id = b.run_id AND s.request_id = b.request_id
ORDER BY e2e DESC NULLS LAST, s.request_id
