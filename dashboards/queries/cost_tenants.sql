-- Busy time without an atom stood on replicas that have no price: its cost is unknown, not 0.
WITH spent AS (
    SELECT
        w.tenant AS tenant,
        sum(w.requests) AS requests,
        if(sum(w.atoms) = 0 AND sum(w.busy_ns) > 0, NULL, sum(w.atoms)) AS atoms,
        if(sum(w.fully_loaded_atoms) = 0 AND sum(w.busy_ns) > 0, NULL, sum(w.fully_loaded_atoms)) AS loaded_atoms,
        sum(w.class_atoms['useful']) AS useful_atoms,
        sum(w.useful_tokens) AS useful_tokens,
        sum(w.hit_tokens) AS hit_tokens,
        sum(w.hit_base_tokens) AS hit_base_tokens,
        sum(w.saved_gross_atoms) AS saved_atoms
    FROM tenant_windows AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
        AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
        AND w.tenant != ''
    GROUP BY tenant
),
waited AS (
    SELECT w.tenant AS tenant, toNullable(floor(pow(1.01, quantileExactWeightedArray(0.99)(w.buckets, w.counts)) * 2 / 2.01)) AS ttft_p99_ns
    FROM latency_windows AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
        AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
        AND w.measure = 'ttft'
    GROUP BY tenant
),
charged AS (
    SELECT w.tenant AS tenant, toFloat64(sum(w.amount)) AS charged
    FROM rated_windows AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
        AND $__conditionalAll(w.tenant IN (${tenant:singlequote}), $tenant)
        AND $__conditionalAll(w.model IN (${model:singlequote}), $model)
    GROUP BY tenant
)
SELECT
    spent.tenant AS tenant,
    requests,
    atoms / 1e12 AS spend,
    loaded_atoms / 1e12 AS `fully loaded`,
    loaded_atoms / nullIf(sum(loaded_atoms) OVER (), 0) AS share,
    useful_tokens AS `useful tokens`,
    loaded_atoms / 1e6 / nullIf(useful_tokens, 0) AS `per 1M useful`,
    1 - useful_atoms / nullIf(atoms, 0) AS waste,
    hit_tokens / nullIf(hit_base_tokens, 0) AS `cache hits`,
    saved_atoms / 1e12 AS `cache saved`,
    charged.charged AS charged,
    waited.ttft_p99_ns AS `p99 TTFT`
FROM spent
LEFT JOIN waited ON waited.tenant = spent.tenant
LEFT JOIN charged ON charged.tenant = spent.tenant
ORDER BY spend DESC NULLS LAST, tenant
