-- Windows and models of requests that missed an objective and have a stage of which their window does not show what is usual.
SELECT DISTINCT window_from, toString(model)
FROM (
    SELECT window_from, model, stage, arrayJoin(if(empty(stage_ttft_ns), ['whole'], ['before', 'after'])) AS part
    FROM work_requests
    ARRAY JOIN mapKeys(stage_ns) AS stage
    WHERE missed_slo != 'none'
        AND window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC')
        AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
)
WHERE (window_from, model, part, stage) NOT IN (SELECT window_from, model, toString(part), stage FROM work_baselines)
ORDER BY ALL
