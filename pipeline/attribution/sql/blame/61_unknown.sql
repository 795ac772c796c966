-- Models of requests that missed an objective and have a stage of which the run's windows do not show what is usual.
SELECT arraySort(groupUniqArray(toString(model)))
FROM (
    SELECT model, stage, arrayJoin(if(empty(stage_ttft_ns), ['whole'], ['before', 'after'])) AS part
    FROM work_requests
    ARRAY JOIN mapKeys(stage_ns) AS stage
    WHERE missed_slo != 'none'
)
WHERE (model, part, stage) NOT IN (SELECT model, toString(part), stage FROM work_baselines)
