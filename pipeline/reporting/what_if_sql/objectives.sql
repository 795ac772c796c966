-- Useful tokens and answers in time now, and if the objectives were these (negative: as it is). The rules are those of assembly: a streamed
-- answer without a TTFT misses it, an unstreamed one is held to it as a whole; one token has no TPOT and passes.
WITH published AS (
    SELECT window_from, argMax(run_id, (recorded_at, run_id)) AS run_id FROM runs
    WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')}
        AND window_from >= {from:DateTime('UTC')} AND window_from < {to:DateTime('UTC')}
    GROUP BY window_from
)
SELECT
    count() AS answers,
    countIf(useful) AS useful_now,
    sumIf(tokens, useful) AS tokens_now,
    countIf(in_time) AS useful_then,
    sumIf(tokens, in_time) AS tokens_then
FROM (
    SELECT
        r.outcome = 'useful' AS useful,
        coalesce(r.delivered_tokens, 0) AS tokens,
        if({ttft_ns:Int64} < 0, coalesce(r.slo_ttft, 1), multiIf(
            isNotNull(r.ttft_ns), assumeNotNull(r.ttft_ns) <= {ttft_ns:Int64},
            r.streamed = 1, 0,
            coalesce(r.e2e_ns <= {ttft_ns:Int64}, 0)
        )) AS ttft_met,
        if({tpot_ns:Int64} < 0, coalesce(r.slo_tpot, 1), coalesce(r.tpot_ns <= {tpot_ns:Int64}, 1)) AS tpot_met,
        if({e2e_ns:Int64} < 0, coalesce(r.slo_e2e, 1), coalesce(r.e2e_ns <= {e2e_ns:Int64}, 0)) AS e2e_met,
        ttft_met AND tpot_met AND e2e_met AS in_time
    FROM requests AS r
    WHERE r.outcome IN ('useful', 'late') AND (r.window_from, r.run_id) IN published
)
