-- Which windows the data points of a message touch: a point speaks of the four minutes before it (a counter's increase) and after it
-- (a gauge's value), see pipeline/attribution/measures.py. They carry no spans.
CREATE MATERIALIZED VIEW IF NOT EXISTS sample_arrivals_view TO arrivals AS
WITH
    toUInt64(3600000000000) AS ahead_ns,
    toUInt64(900000000000) AS cell_ns,
    toUInt64(240000000000) AS stale_ns
SELECT toDateTime(cell * 900, 'UTC') AS window_from, topic, log_partition, log_offset, toUInt32(0) AS spans, received_ns
FROM (
    SELECT
        topic, log_partition, log_offset, received_ns,
        arrayJoin(arrayDistinct(arrayFlatten(arrayMap(
            time -> [toUInt32(intDiv(time - stale_ns, cell_ns)), toUInt32(intDiv(time + stale_ns, cell_ns))],
            arrayFilter(
                time -> time <= received_ns + ahead_ns AND time + least(max_age_ns, toUInt64(34560000000000000)) >= received_ns,
                arrayDistinct(arrayFlatten(arrayMap(b -> arrayMap(s -> arrayMap(m -> arrayConcat(
                    arrayMap(p -> p.time_unix_nano, m.gauge.data_points),
                    arrayMap(p -> p.time_unix_nano, m.sum.data_points),
                    arrayMap(p -> p.time_unix_nano, m.histogram.data_points),
                    arrayMap(p -> p.time_unix_nano, m.exponential_histogram.data_points),
                    arrayMap(p -> p.time_unix_nano, m.summary.data_points)
                ), s.metrics), b.scope_metrics), request.resource_metrics)))
            )
        )))) AS cell
    FROM otlp_metrics
)
