-- Requests that missed an objective (slo) or are of the slowest hundredth of their window (tail), by the stage that they are blamed on. excess_ns: what that stage took more than usual, together.
SELECT
    toString(b.tenant) AS tenant,
    toString(b.model) AS model,
    toString(b.measure) AS measure,
    toString(b.stage) AS stage,
    count() AS requests,
    sum(b.excess_ns) AS excess_ns,
    countIf(b.compared = 0) AS incomparable
FROM blames AS b
WHERE b.window_from >= {from:DateTime('UTC')} AND b.window_from < {to:DateTime('UTC')}
    AND b.cause = {cause:String}
    AND ({tenant:String} = '' OR b.tenant = {tenant:String}) AND ({model:String} = '' OR b.model = {model:String})
    AND (b.window_from, b.run_id) IN (
        SELECT window_from, argMax(run_id, (recorded_at, run_id)) FROM runs
        WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')} GROUP BY window_from)
GROUP BY tenant, model, measure, stage
ORDER BY requests DESC, excess_ns DESC, tenant, model, measure, stage
