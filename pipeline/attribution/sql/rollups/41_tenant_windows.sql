-- Requests are counted in the window of their root, atoms in the window of the slot: a tenant may have either without the other.
-- atoms: what the tenant answers for (payer tenant). fully_loaded_atoms adds its share, by busy atoms, of all that nobody answers for.
INSERT INTO tenant_windows (
    window_from, run_id, tenant, model, requests, outcomes, attempts, failed_attempts, input_tokens, output_tokens, input_uncached_tokens,
    input_cache_read_tokens, input_cache_write_tokens, output_text_tokens, output_reasoning_tokens, hit_base_tokens, hit_tokens,
    generated_tokens, delivered_tokens, delivered_assumed_tokens, useful_tokens, usage_reported, usage_estimated, usage_unknown, split_unknown,
    slo_met, slo_of, flags, atoms, class_atoms, platform_paid_atoms, busy_ns, fully_loaded_atoms, saved_gross_atoms
)
WITH
    toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC') AS first_window,
    toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC') AS end_window,
    asked AS (
        SELECT
            r.window_from AS window_from,
            toString(r.tenant) AS tenant,
            toString(r.model) AS model,
            count() AS requests,
            sumMap(map(toString(r.outcome), toUInt64(1))) AS outcomes,
            sum(r.attempts) AS attempts,
            sum(r.failed_attempts) AS failed_attempts,
            sum(r.input_tokens) AS input_tokens,
            sum(r.output_tokens) AS output_tokens,
            sum(r.input_uncached_tokens) AS input_uncached_tokens,
            sum(r.input_cache_read_tokens) AS input_cache_read_tokens,
            sum(r.input_cache_write_tokens) AS input_cache_write_tokens,
            sum(r.output_text_tokens) AS output_text_tokens,
            sum(r.output_reasoning_tokens) AS output_reasoning_tokens,
            sumIf(ifNull(r.input_tokens, 0), isNotNull(r.input_tokens) AND isNotNull(r.input_cache_read_tokens)) AS hit_base_tokens,
            sumIf(ifNull(r.input_cache_read_tokens, 0), isNotNull(r.input_tokens) AND isNotNull(r.input_cache_read_tokens)) AS hit_tokens,
            sum(r.generated_tokens) AS generated_tokens,
            sum(r.delivered_tokens) AS delivered_tokens,
            sumIf(ifNull(r.delivered_tokens, 0), r.delivery = 'assumed') AS delivered_assumed_tokens,
            sum(r.useful_tokens) AS useful_tokens,
            countIf(r.usage_state = 'reported') AS usage_reported,
            countIf(r.usage_state = 'estimated') AS usage_estimated,
            countIf(r.usage_state = 'unknown') AS usage_unknown,
            countIf(has(r.flags, 'split_unknown')) AS split_unknown,
            -- Rejected ones never reached an engine; failed ones missed whatever their times say.
            countIf(r.outcome != 'rejected' AND isNotNull(coalesce(r.slo_ttft, r.slo_tpot, r.slo_e2e))) AS slo_of,
            countIf(r.outcome NOT IN ('rejected', 'failed') AND isNotNull(coalesce(r.slo_ttft, r.slo_tpot, r.slo_e2e))
                AND ifNull(r.slo_ttft, 1) AND ifNull(r.slo_tpot, 1) AND ifNull(r.slo_e2e, 1)) AS slo_met,
            sumMap(mapFromArrays(arrayMap(f -> toString(f), arrayDistinct(r.flags)), arrayMap(f -> toUInt64(1), arrayDistinct(r.flags)))) AS flags
        FROM requests AS r
        WHERE r.run_id = {run_id:UInt64} AND r.window_from >= first_window AND r.window_from < end_window
        GROUP BY r.window_from, r.tenant, r.model
    ),
    spent AS (
        SELECT
            l.window_from AS window_from,
            toString(l.tenant) AS tenant,
            toString(l.model) AS model,
            sumIf(l.atoms, l.payer = 'tenant') AS atoms,
            sumMapIf(map(toString(l.class), l.atoms), l.payer = 'tenant') AS class_atoms,
            sumIf(l.atoms, l.payer = 'platform') AS platform_paid_atoms,
            sumIf(l.atoms, l.pool = 'gpu' AND l.class != 'idle_reserved') AS busy_atoms,
            sum(l.busy_ns) AS busy_ns
        FROM ledger AS l
        WHERE l.run_id = {run_id:UInt64} AND l.window_from >= first_window AND l.window_from < end_window
            AND l.tenant != '' AND l.class NOT IN ('unattributed', 'platform_waste', 'idle', 'overhead')
        GROUP BY l.window_from, l.tenant, l.model
    ),
    shared AS (
        SELECT u.window_from AS window_from, sum(u.atoms) AS atoms
        FROM unallocated_windows AS u
        WHERE u.run_id = {run_id:UInt64} AND u.window_from >= first_window AND u.window_from < end_window
        GROUP BY u.window_from
    ),
    portions AS (
        SELECT
            s.window_from AS window_from, s.tenant AS tenant, s.model AS model,
            toInt256(h.atoms) AS pot,
            toInt256(s.busy_atoms) AS weight,
            sum(toInt256(s.busy_atoms)) OVER (PARTITION BY s.window_from) AS whole,
            intDiv(pot * weight, greatest(whole, toInt256(1))) AS low,
            if(whole = 0, toInt256(0), pot * weight - low * whole) AS rest
        FROM spent AS s LEFT JOIN shared AS h ON s.window_from = h.window_from
    ),
    -- Largest remainder, ties by (tenant, model). Nobody busy: nothing is shared out, the pot stays unallocated.
    loads AS (
        SELECT
            p.window_from AS window_from, p.tenant AS tenant, p.model AS model,
            p.low + if(p.whole > 0 AND row_number() OVER (PARTITION BY p.window_from ORDER BY p.rest DESC, p.tenant, p.model)
                <= p.pot - sum(p.low) OVER (PARTITION BY p.window_from), toInt256(1), toInt256(0)) AS atoms
        FROM portions AS p
    ),
    saved AS (
        SELECT w.window_from AS window_from, toString(w.tenant) AS tenant, toString(w.model) AS model, toNullable(sum(w.atoms)) AS atoms
        FROM work_savings AS w
        WHERE w.window_from >= first_window AND w.window_from < end_window
        GROUP BY w.window_from, w.tenant, w.model
    ),
    everyone AS (
        SELECT window_from, tenant, model FROM asked
        UNION DISTINCT SELECT window_from, tenant, model FROM spent
        UNION DISTINCT SELECT window_from, tenant, model FROM saved
    )
SELECT
    e.window_from, {run_id:UInt64}, e.tenant, e.model, a.requests, a.outcomes, a.attempts, a.failed_attempts, a.input_tokens, a.output_tokens,
    a.input_uncached_tokens, a.input_cache_read_tokens, a.input_cache_write_tokens, a.output_text_tokens, a.output_reasoning_tokens,
    a.hit_base_tokens, a.hit_tokens, a.generated_tokens, a.delivered_tokens, a.delivered_assumed_tokens, a.useful_tokens, a.usage_reported,
    a.usage_estimated, a.usage_unknown, a.split_unknown, a.slo_met, a.slo_of, a.flags, s.atoms, s.class_atoms, s.platform_paid_atoms, s.busy_ns,
    toInt128(s.atoms + l.atoms), v.atoms
FROM everyone AS e
LEFT JOIN asked AS a ON e.window_from = a.window_from AND e.tenant = a.tenant AND e.model = a.model
LEFT JOIN spent AS s ON e.window_from = s.window_from AND e.tenant = s.tenant AND e.model = s.model
LEFT JOIN loads AS l ON e.window_from = l.window_from AND e.tenant = l.tenant AND e.model = l.model
LEFT JOIN saved AS v ON e.window_from = v.window_from AND e.tenant = v.tenant AND e.model = v.model
SETTINGS join_use_nulls = 0
