-- Per tenant and model of a period: useful tokens, useful GPU time on priced replicas, what the cache saved, and what the tenant answers for.
WITH published AS (
    SELECT window_from, argMax(run_id, (recorded_at, run_id)) AS run_id FROM runs
    WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')}
        AND window_from >= {from:DateTime('UTC')} AND window_from < {to:DateTime('UTC')}
    GROUP BY window_from
),
priced AS (
    SELECT p.window_from, p.run_id, p.resource FROM pools AS p
    WHERE p.pool = 'gpu' AND p.priced = 1 AND (p.window_from, p.run_id) IN published
)
SELECT tenant, model, sum(useful_tokens) AS useful_tokens, sum(useful_ns) AS useful_ns, sum(saved_atoms) AS saved_atoms, sum(atoms) AS direct_atoms
FROM (
    SELECT
        toString(t.tenant) AS tenant, toString(t.model) AS model, t.useful_tokens AS useful_tokens, toUInt64(0) AS useful_ns,
        coalesce(t.saved_gross_atoms, 0) AS saved_atoms, t.atoms AS atoms
    FROM tenant_windows AS t
    WHERE (t.window_from, t.run_id) IN published
    UNION ALL
    SELECT toString(l.tenant), toString(l.model), 0, l.busy_ns, 0, 0
    FROM ledger AS l
    WHERE l.pool = 'gpu' AND l.class = 'useful' AND (l.window_from, l.run_id) IN published AND (l.window_from, l.run_id, l.resource) IN priced
)
GROUP BY tenant, model
ORDER BY tenant, model
