-- "topic/partition" and its next offset: what had arrived when the run began.
SELECT concat(topic, '/', toString(log_partition)) AS source, max(log_offset) + 1 AS next_offset FROM arrivals GROUP BY source ORDER BY source
