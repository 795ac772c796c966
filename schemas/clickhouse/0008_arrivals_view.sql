-- The cells of the 15-minute grid (900 s from the epoch) that the interval of an accepted span touches: those of its
-- start and of its end, and those between for the first hour after the start (the longest attempt by default).
-- The attribution job maps cells to its own windows.
CREATE MATERIALIZED VIEW IF NOT EXISTS arrivals_view TO arrivals AS
WITH
    toUInt64(3600000000000) AS ahead_ns,
    toUInt64(900000000000) AS cell_ns,
    (first, last) -> arrayDistinct(arrayPushBack(range(first, least(last, first + 4) + 1), last)) AS touched,
    (s, received, age) -> s.start_time_unix_nano <= received + ahead_ns AND s.start_time_unix_nano + least(age, toUInt64(34560000000000000)) >= received
        AND s.end_time_unix_nano <= received + ahead_ns AS accepted
SELECT toDateTime(cells[1] * 900, 'UTC') AS window_from, topic, log_partition, log_offset, toUInt32(length(cells)) AS spans, received_ns
FROM (
    SELECT
        topic, log_partition, log_offset, received_ns,
        arraySort(arrayFlatten(arrayMap(b -> arrayMap(s -> arrayMap(
            span -> touched(toUInt32(intDiv(span.start_time_unix_nano, cell_ns)), toUInt32(intDiv(greatest(span.start_time_unix_nano, span.end_time_unix_nano), cell_ns))),
            arrayFilter(span -> accepted(span, received_ns, max_age_ns), s.spans)
        ), b.scope_spans), request.resource_spans))) AS sorted,
        arrayJoin(arraySplit((cell, difference) -> difference != 0, sorted, arrayDifference(sorted))) AS cells
    FROM otlp_traces
    WHERE notEmpty(sorted)
)
