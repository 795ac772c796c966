-- Spans that no request shows, by reason.
SELECT toString(reason) AS reason, sum(spans) AS spans
FROM left_out
WHERE window_from >= {from:DateTime('UTC')} AND window_from < {to:DateTime('UTC')}
    AND (window_from, run_id) IN (
        SELECT window_from, argMax(run_id, (recorded_at, run_id)) FROM runs
        WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')} GROUP BY window_from)
GROUP BY reason
ORDER BY reason
