-- The whole range, whatever the filter: what the pools cost, and every atom that the rollups hold.
WITH published AS (
    SELECT window_from, argMax(run_id, (recorded_at, run_id)) AS run_id FROM runs
    WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')}
        AND window_from >= {from:DateTime('UTC')} AND window_from < {to:DateTime('UTC')}
    GROUP BY window_from
)
SELECT
    (SELECT sum(p.atoms) FROM pools AS p WHERE (p.window_from, p.run_id) IN published) AS pools_atoms,
    (SELECT sumMap(map(toString(p.pool), p.atoms)) FROM pools AS p WHERE (p.window_from, p.run_id) IN published) AS pool_atoms,
    (SELECT groupUniqArrayIf(toString(p.pool), p.priced = 1) FROM pools AS p WHERE (p.window_from, p.run_id) IN published) AS told_pools,
    (SELECT sum(t.atoms) FROM tenant_windows AS t WHERE (t.window_from, t.run_id) IN published) AS tenants_atoms,
    (SELECT sumMap(map(toString(u.class), u.atoms)) FROM unallocated_windows AS u WHERE (u.window_from, u.run_id) IN published) AS class_atoms,
    (SELECT arraySort(groupUniqArrayIf(toString(p.currency), p.currency != '')) FROM pools AS p WHERE (p.window_from, p.run_id) IN published) AS currencies,
    (SELECT countIf(p.priced = 1) FROM pools AS p WHERE p.pool = 'gpu' AND (p.window_from, p.run_id) IN published) AS priced_pools,
    (SELECT arraySort(groupUniqArrayIf(toString(p.resource), p.priced = 0)) FROM pools AS p WHERE p.pool = 'gpu' AND (p.window_from, p.run_id) IN published) AS unpriced
