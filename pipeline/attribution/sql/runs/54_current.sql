-- What readers see of each window, to compare a new run with.
SELECT
    window_from,
    argMax((toString(kind), toString(method), toString(useful_policy), config_hash, version, content_hash), (recorded_at, run_id)) AS content
FROM runs
WHERE state = 'published'
    AND window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC') AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
GROUP BY window_from
