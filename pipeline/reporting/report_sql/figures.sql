-- Sums of the rollup per group; `by` is tenant, model, hour or total. A sum of nothing but NULL is NULL: nobody reports it.
SELECT
    multiIf({by:String} = 'tenant', toString(tenant), {by:String} = 'model', toString(model), {by:String} = 'hour',
        formatDateTime(toStartOfHour(window_from), '%Y-%m-%dT%H:%i:%SZ'), '') AS key,
    sum(t.requests) AS requests,
    sumMap(t.outcomes) AS outcomes,
    sum(t.attempts) AS attempts,
    sum(t.failed_attempts) AS failed_attempts,
    sum(t.input_tokens) AS input_tokens,
    sum(t.output_tokens) AS output_tokens,
    sum(t.input_uncached_tokens) AS input_uncached_tokens,
    sum(t.input_cache_read_tokens) AS input_cache_read_tokens,
    sum(t.input_cache_write_tokens) AS input_cache_write_tokens,
    sum(t.output_text_tokens) AS output_text_tokens,
    sum(t.output_reasoning_tokens) AS output_reasoning_tokens,
    sum(t.hit_base_tokens) AS hit_base_tokens,
    sum(t.hit_tokens) AS hit_tokens,
    sum(t.generated_tokens) AS generated_tokens,
    sum(t.delivered_tokens) AS delivered_tokens,
    sum(t.delivered_assumed_tokens) AS delivered_assumed_tokens,
    sum(t.useful_tokens) AS useful_tokens,
    sum(t.usage_reported) AS usage_reported,
    sum(t.usage_estimated) AS usage_estimated,
    sum(t.usage_unknown) AS usage_unknown,
    sum(t.split_unknown) AS split_unknown,
    sum(t.slo_met) AS slo_met,
    sum(t.slo_of) AS slo_of,
    sumMap(t.flags) AS flags,
    sumIf(t.requests, t.tenant = 'unknown') AS unknown_tenant_requests,
    sum(t.atoms) AS atoms,
    sumMap(t.class_atoms) AS class_atoms,
    sum(t.platform_paid_atoms) AS platform_paid_atoms,
    sum(t.busy_ns) AS busy_ns,
    sum(t.fully_loaded_atoms) AS fully_loaded_atoms,
    sum(t.saved_gross_atoms) AS saved_gross_atoms
FROM tenant_windows AS t
WHERE t.window_from >= {from:DateTime('UTC')} AND t.window_from < {to:DateTime('UTC')}
    AND ({tenant:String} = '' OR t.tenant = {tenant:String}) AND ({model:String} = '' OR t.model = {model:String})
    AND (t.window_from, t.run_id) IN (
        SELECT window_from, argMax(run_id, (recorded_at, run_id)) FROM runs
        WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')} GROUP BY window_from)
GROUP BY key
ORDER BY key
