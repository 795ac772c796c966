-- Runs that no window shows any more, long enough ago. 'closed' only while its requests are still there.
WITH followed AS (
    SELECT
        run_id,
        kind,
        if(
            state = 'published',
            min(if(state = 'published', toUnixTimestamp64Micro(recorded_at), 9000000000000000)) OVER later,
            min(toUnixTimestamp64Micro(recorded_at)) OVER later
        ) AS next_us
    FROM runs
    WHERE state IN ('published', 'unchanged')
    WINDOW later AS (PARTITION BY window_from ORDER BY recorded_at, run_id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
)
SELECT run_id, toString(any(kind)) AS run_kind
FROM followed
GROUP BY run_id
HAVING
    min(next_us) > 0
    AND (
        (run_kind = 'provisional' AND max(next_us) < {provisional_before_us:Int64})
        OR (run_kind = 'closed' AND max(next_us) < {closed_before_us:Int64} AND run_id IN (SELECT run_id FROM requests))
    )
ORDER BY run_id
LIMIT {runs_max:UInt32}
