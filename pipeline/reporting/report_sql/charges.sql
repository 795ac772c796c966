-- The price book's side per group. amount is NULL when nothing was priced.
SELECT
    multiIf({by:String} = 'tenant', toString(tenant), {by:String} = 'model', toString(model), {by:String} = 'hour',
        formatDateTime(toStartOfHour(window_from), '%Y-%m-%dT%H:%i:%SZ'), '') AS key,
    sum(r.amount) AS amount,
    sumIf(r.billable_tokens, isNull(r.amount)) AS unpriced_tokens,
    arraySort(groupUniqArrayIf(toString(r.model), isNull(r.amount))) AS unpriced_models
FROM rated_windows AS r
WHERE r.window_from >= {from:DateTime('UTC')} AND r.window_from < {to:DateTime('UTC')}
    AND ({tenant:String} = '' OR r.tenant = {tenant:String}) AND ({model:String} = '' OR r.model = {model:String})
    AND r.billable_tokens > 0
    AND (r.window_from, r.run_id) IN (
        SELECT window_from, argMax(run_id, (recorded_at, run_id)) FROM runs
        WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')} GROUP BY window_from)
GROUP BY key
