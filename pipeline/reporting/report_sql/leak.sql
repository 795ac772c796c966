-- Where the money of the selected tenants and models went: class x stage. Without a filter the cells sum to the ledger.
SELECT l.class AS cost_class, l.stage AS stage, sum(l.atoms) AS atoms
FROM leak_windows AS l
WHERE l.window_from >= {from:DateTime('UTC')} AND l.window_from < {to:DateTime('UTC')}
    AND ({tenant:String} = '' OR l.tenant = {tenant:String}) AND ({model:String} = '' OR l.model = {model:String})
    AND (l.window_from, l.run_id) IN (
        SELECT window_from, argMax(run_id, (recorded_at, run_id)) FROM runs
        WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')} GROUP BY window_from)
GROUP BY cost_class, stage
HAVING atoms != 0
ORDER BY atoms DESC, cost_class, stage
