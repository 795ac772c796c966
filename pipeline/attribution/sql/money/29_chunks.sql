-- How many pieces of attempts are live per replica and window: the size of what 22 and 23 read.
SELECT replica, window_ns, count() AS attempts
FROM work_legs
ARRAY JOIN range(
    intDiv(live_from, {window_ns:Int64}) * {window_ns:Int64}, greatest(live_to - 1, live_from) + 1, {window_ns:Int64}
) AS window_ns
GROUP BY replica, window_ns
ORDER BY replica, window_ns
