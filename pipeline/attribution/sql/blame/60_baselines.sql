-- What is usual: per model, part of the time line and stage the median (nearest rank) over useful requests, in ps per unit, rounded down.
-- Prefill and what lies in it goes by uncached input tokens, decode and what lies in it by output tokens, all else by request. A request
-- takes no part in a stage that it does not have, nor in one that goes by tokens it does not tell. Fewer than 30 requests: no row.
-- source `run`: of the run's windows alone, for all models. `day`: the 24 hours before them too, for {models} and what `run` left open.
INSERT INTO work_baselines (run_id, model, part, stage, unit, source, n, ps_per_unit)
SELECT {run_id:UInt64}, model, found.1, stage, found.2, {source:String}, found.3, found.4
FROM (
    SELECT
        model,
        stage,
        stage = 'prefill' OR stage IN {inner_stages:Array(String)} AS by_input,
        stage = 'decode' OR stage IN {inner_stages:Array(String)} AS by_output,
        [
            ('before', if(by_input, 'input_token', 'request'), countIf(told AND early_units > 0), quantileExactLowIf(0.5)(early_ps, told AND early_units > 0)),
            ('after', if(by_output, 'output_token', 'request'), countIf(told AND later_units > 0), quantileExactLowIf(0.5)(later_ps, told AND later_units > 0)),
            ('whole', multiIf(stage = 'prefill', 'input_token', stage = 'decode', 'output_token', 'request'),
                countIf(NOT told AND whole_units > 0), quantileExactLowIf(0.5)(whole_ps, NOT told AND whole_units > 0))
        ] AS parts
    FROM (
        SELECT
            model,
            stage,
            told,
            -- Units that it goes by; 0: not told.
            if(kind IN (1, 3), input_units, 1) AS early_units,
            if(kind IN (2, 3), output_units, 1) AS later_units,
            multiIf(kind = 1, input_units, kind = 2, output_units, 1) AS whole_units,
            intDiv(early_ns * 1000, greatest(early_units, 1)) AS early_ps,
            intDiv(toUInt64(whole_ns - early_ns) * 1000, greatest(later_units, 1)) AS later_ps,
            intDiv(whole_ns * 1000, greatest(whole_units, 1)) AS whole_ps
        FROM (
            SELECT
                model,
                notEmpty(stage_ttft_ns) AS told,
                if(isNull(input_uncached_tokens), 0, greatest(assumeNotNull(input_uncached_tokens), 1)) AS input_units,
                if(isNull(output_tokens), 0, greatest(assumeNotNull(output_tokens), 1)) AS output_units,
                mapKeys(stage_ns) AS stages,
                arrayMap(key -> transform(key, ['prefill', 'decode'], [1, 2], if(key IN {inner_stages:Array(String)}, 3, 0)), stages) AS kinds,
                arrayMap(ns -> least(ns, 9000000000000000), mapValues(stage_ns)) AS own_ns,
                arrayMap((ns, early) -> least(ns, early), own_ns, if(told, mapValues(stage_ttft_ns), arrayResize(CAST([], 'Array(UInt64)'), length(stages)))) AS own_early_ns
            FROM (
                SELECT model, stage_ns, stage_ttft_ns, input_uncached_tokens, output_tokens
                FROM work_requests
                WHERE outcome = 'useful'
                    AND window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC')
                    AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
                    AND ({source:String} = 'run' OR model IN {models:Array(String)})
                UNION ALL
                SELECT r.model, r.stage_ns, r.stage_ttft_ns, r.input_uncached_tokens, r.output_tokens
                FROM requests AS r
                WHERE {source:String} = 'day'
                    AND r.outcome = 'useful'
                    AND r.model IN {models:Array(String)}
                    AND r.window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000) - 86400, 'UTC')
                    AND r.window_from < toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC')
                    AND (r.window_from, r.run_id) IN (SELECT window_from, run_id FROM current_runs WHERE kind = 'closed')
            )
        )
        ARRAY JOIN stages AS stage, kinds AS kind, own_ns AS whole_ns, own_early_ns AS early_ns
    )
    GROUP BY model, stage
)
ARRAY JOIN parts AS found
WHERE found.3 >= 30 AND (model, found.1, stage) NOT IN (SELECT model, toString(part), stage FROM work_baselines)
