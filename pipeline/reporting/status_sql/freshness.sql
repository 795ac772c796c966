-- Receipt to queryable of the messages of the last hour in which any came, in ms by nearest rank; one message touches several windows.
WITH messages AS (
    SELECT any(a.received_ns) AS received_ns, min(a.stored_at) AS stored_at
    FROM arrivals AS a FINAL
    WHERE a.received_ns > (SELECT max(received_ns) FROM arrivals) - 3600000000000
    GROUP BY a.topic, a.log_partition, a.log_offset
)
SELECT
    length(sorted_ms) AS n,
    sorted_ms[intDiv(500 * length(sorted_ms) + 999, 1000)] AS p50,
    sorted_ms[intDiv(990 * length(sorted_ms) + 999, 1000)] AS p99
FROM (
    SELECT arraySort(groupArray(greatest(0, intDiv(toUnixTimestamp64Micro(stored_at) * 1000 - toInt64(received_ns), 1000000)))) AS sorted_ms
    FROM messages
)
