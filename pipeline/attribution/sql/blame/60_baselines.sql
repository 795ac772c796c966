-- What is usual: per model, part of the time line and stage the median (nearest rank) over useful requests, in ps per unit, rounded down.
-- Prefill and what lies in it goes by uncached input tokens, decode and what lies in it by output tokens, all else by request. A request
-- takes no part in a stage that it does not have, nor in one that goes by tokens it does not tell. Fewer than 30 requests: no row.
-- Per window, so that it does not matter with which others it is run. source `window`: of its own requests, for all models. `day`: of the
-- 24 hours before it too, for the pairs (window, model) in {asked} and what `window` left open.
INSERT INTO work_baselines (window_from, run_id, model, part, stage, unit, source, n, ps_per_unit)
SELECT window_from, {run_id:UInt64}, model, found.1, stage, found.2, {source:String}, found.3, found.4
FROM (
    SELECT
        window_from,
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
            window_from,
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
                target AS window_from,
                model,
                notEmpty(stage_ttft_ns) AS told,
                if(isNull(input_uncached_tokens), 0, greatest(assumeNotNull(input_uncached_tokens), 1)) AS input_units,
                if(isNull(output_tokens), 0, greatest(assumeNotNull(output_tokens), 1)) AS output_units,
                mapKeys(stage_ns) AS stages,
                arrayMap(key -> transform(key, ['prefill', 'decode'], [1, 2], if(key IN {inner_stages:Array(String)}, 3, 0)), stages) AS kinds,
                arrayMap(ns -> least(ns, 9000000000000000), mapValues(stage_ns)) AS own_ns,
                arrayMap((ns, early) -> least(ns, early), own_ns, if(told, mapValues(stage_ttft_ns), arrayResize(CAST([], 'Array(UInt64)'), length(stages)))) AS own_early_ns
            FROM (
                SELECT window_from AS at, model, stage_ns, stage_ttft_ns, input_uncached_tokens, output_tokens
                FROM work_requests
                WHERE outcome = 'useful'
                    AND window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC')
                    AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
                    AND ({source:String} = 'window' OR model IN (SELECT arrayJoin({asked:Array(Tuple(DateTime('UTC'), String))}).2))
                UNION ALL
                SELECT r.window_from AS at, r.model, r.stage_ns, r.stage_ttft_ns, r.input_uncached_tokens, r.output_tokens
                FROM requests AS r
                WHERE {source:String} = 'day'
                    AND r.outcome = 'useful'
                    AND r.model IN (SELECT arrayJoin({asked:Array(Tuple(DateTime('UTC'), String))}).2)
                    AND r.window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000) - 86400, 'UTC')
                    AND r.window_from < toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC')
                    AND (r.window_from, r.run_id) IN (SELECT window_from, run_id FROM current_runs WHERE kind = 'closed')
            )
            -- The windows that a request says something about.
            ARRAY JOIN if(
                {source:String} = 'window',
                [at],
                arrayFilter(w -> at <= w AND at >= w - 86400, arrayDistinct(arrayMap(a -> a.1, {asked:Array(Tuple(DateTime('UTC'), String))})))
            ) AS target
            WHERE {source:String} = 'window' OR (target, toString(model)) IN {asked:Array(Tuple(DateTime('UTC'), String))}
        )
        ARRAY JOIN stages AS stage, kinds AS kind, own_ns AS whole_ns, own_early_ns AS early_ns
    )
    GROUP BY window_from, model, stage
)
ARRAY JOIN parts AS found
WHERE found.3 >= 30 AND (window_from, model, found.1, stage) NOT IN (SELECT window_from, model, toString(part), stage FROM work_baselines)
