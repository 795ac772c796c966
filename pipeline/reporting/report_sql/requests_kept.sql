-- How many of the range's request rows are still there (those of superseded runs are deleted after a while).
SELECT count()
FROM requests AS r
WHERE r.window_from >= {from:DateTime('UTC')} AND r.window_from < {to:DateTime('UTC')}
    AND ({tenant:String} = '' OR r.tenant = {tenant:String}) AND ({model:String} = '' OR r.model = {model:String})
    AND (r.window_from, r.run_id) IN (
        SELECT window_from, argMax(run_id, (recorded_at, run_id)) FROM runs
        WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')} GROUP BY window_from)
