-- What engine counters counted minus what attempts account for. NULL without counters; below 0 where counters missed something.
SELECT
    if(countIf(quantity = 'prompt_tokens') = 0, NULL, toInt64(sumIf(counted, quantity = 'prompt_tokens')) - toInt64(sumIf(accounted, quantity = 'prompt_tokens'))) AS prompt,
    if(
        countIf(quantity = 'generation_tokens') = 0,
        NULL,
        toInt64(sumIf(counted, quantity = 'generation_tokens')) - toInt64(sumIf(accounted, quantity = 'generation_tokens'))
    ) AS generation
FROM counted_tokens
WHERE window_from >= {from:DateTime('UTC')} AND window_from < {to:DateTime('UTC')}
    AND (window_from, run_id) IN (
        SELECT window_from, argMax(run_id, (recorded_at, run_id)) FROM runs
        WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')} GROUP BY window_from)
