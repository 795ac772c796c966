-- The cells of the 15-minute grid (900 s from the epoch) that a span's interval touches: those of its start and of its
-- end, and those between for the first hour after the start (the longest attempt). A window is a union of cells or a
-- part of one, so the job maps them to its own windows.
CREATE MATERIALIZED VIEW IF NOT EXISTS arrivals_view TO arrivals AS
SELECT
    toDateTime(arrayJoin(cells) * 900, 'UTC') AS window_from, topic, log_partition, log_offset,
    toUInt32(count()) AS spans, any(received_ns) AS received_ns
FROM (
    SELECT
        topic, log_partition, log_offset, received_ns,
        toUInt32(toUnixTimestamp64Second(started_at) DIV 900) AS first_cell,
        toUInt32((toUnixTimestamp64Nano(started_at) + ifNull(duration_ns, 0)) DIV 900000000000) AS last_cell,
        arrayDistinct(arrayPushBack(range(first_cell, least(last_cell, first_cell + 4) + 1), last_cell)) AS cells
    FROM decoded_spans
    WHERE reason = ''
)
GROUP BY window_from, topic, log_partition, log_offset
