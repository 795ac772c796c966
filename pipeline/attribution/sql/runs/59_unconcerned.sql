-- The newest run of each window stands, with a newer watermark: what came since does not reach the window.
INSERT INTO runs
SELECT * REPLACE (
    'unchanged' AS state,
    mapFromArrays({sources:Array(String)}, {offsets:Array(Int64)}) AS watermark,
    fromUnixTimestamp64Micro({recorded_us:Int64}, 'UTC') AS recorded_at
)
FROM (
    SELECT *
    FROM runs
    WHERE state IN ('published', 'unchanged') AND toInt64(toUnixTimestamp(window_from)) * 1000000000 IN {windows:Array(Int64)}
    ORDER BY window_from, recorded_at DESC, run_id DESC
    LIMIT 1 BY window_from
)
