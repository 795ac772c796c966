-- How many points each quantity is read from.
SELECT s.quantity AS quantity, count() AS points
FROM samples AS p
INNER JOIN work_series AS s ON s.metric = p.metric AND s.series_id = p.series_id
WHERE p.metric IN (SELECT metric FROM work_series)
    AND p.at >= fromUnixTimestamp64Nano({read_from_ns:Int64}, 'UTC') AND p.at < fromUnixTimestamp64Nano({read_to_ns:Int64}, 'UTC')
    AND p.principal = 'platform'
GROUP BY quantity
ORDER BY quantity
