WITH waits AS (
    SELECT w.tenant AS tenant, w.model AS model, w.measure AS measure, quantilesExactWeightedArray(0.5, 0.99)(w.buckets, w.counts) AS bucket
    FROM latency_windows AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
        AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
        AND w.measure IN ('ttft', 'tpot', 'e2e')
    GROUP BY tenant, model, measure
),
counts AS (
    SELECT w.tenant AS tenant, w.model AS model, sum(w.requests) AS n, sum(w.slo_met) / nullIf(sum(w.slo_of), 0) AS met
    FROM tenant_windows AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
        AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
        AND w.tenant != ''
    GROUP BY tenant, model
    HAVING n > 0
)
SELECT
    counts.tenant AS tenant,
    counts.model AS model,
    any(counts.n) AS n,
    floor(pow(1.01, anyIf(toNullable(bucket[1]), measure = 'ttft')) * 2 / 2.01) AS `TTFT p50`,
    floor(pow(1.01, anyIf(toNullable(bucket[2]), measure = 'ttft')) * 2 / 2.01) AS `TTFT p99`,
    floor(pow(1.01, anyIf(toNullable(bucket[2]), measure = 'tpot')) * 2 / 2.01) AS `TPOT p99`,
    floor(pow(1.01, anyIf(toNullable(bucket[2]), measure = 'e2e')) * 2 / 2.01) AS `e2e p99`,
    any(counts.met) AS `objectives met`
FROM counts
LEFT JOIN waits ON waits.tenant = counts.tenant AND waits.model = counts.model
GROUP BY tenant, model
ORDER BY `TTFT p99` DESC NULLS LAST, tenant, model
