-- Gross cache saving, an estimate. Counterfactual: the cached tokens would have been prefilled on the same replica at the compute price of
-- its roofline: tokens x flop_per_token / flops_per_second x the replica's rate when the prefill began. Storage and transfer are not
-- deducted; a slot that waits for memory would have prefilled for less, so this is an upper bound there.
INSERT INTO work_savings
SELECT
    toDateTime(intDiv(l.leg_from, {window_ns:Int64}) * intDiv({window_ns:Int64}, 1000000000), 'UTC') AS window_from,
    a.tenant,
    a.model,
    sum(least(assumeNotNull(a.input_cache_read_tokens), coalesce(a.input_tokens, 16777216), 16777216) AS cached) AS cached_tokens,
    sum(intDiv(toInt128(cached) * g.flop_per_token * g.atoms_per_hour, toInt128(g.flops_per_second) * 3600)) AS atoms
FROM work_attempts AS a
INNER JOIN work_legs AS l ON a.attempt_id = l.attempt_id
INNER JOIN work_segments AS g ON l.replica = g.replica AND l.segment_from = g.segment_from
WHERE l.prefill_home = 1 AND l.live_from = l.leg_from AND g.priced = 1 AND g.constants_known = 1 AND isNotNull(a.input_cache_read_tokens)
GROUP BY window_from, a.tenant, a.model
