-- Data points that samples_view leaves out, by their times.
CREATE MATERIALIZED VIEW IF NOT EXISTS rejected_samples_view TO rejected_samples AS
WITH
    toUInt64(3600000000000) AS ahead_ns,
    (text, n) -> toValidUTF8(substring(text, 1, n)) AS head
SELECT
    topic, log_partition, log_offset, toUInt32(number - 1) AS item_no, 'time_out_of_range' AS reason, principal,
    item.1 AS metric, item.2 AS time_raw, received_ns
FROM (
    SELECT
        topic, log_partition, log_offset, received_ns, max_age_ns, principal,
        arrayFlatten(arrayMap(b -> arrayMap(s -> arrayMap(m -> arrayMap(
            time -> (head(m.name, 256), time),
            arrayConcat(
                arrayMap(p -> p.time_unix_nano, m.gauge.data_points),
                arrayMap(p -> p.time_unix_nano, m.sum.data_points),
                arrayMap(p -> p.time_unix_nano, m.histogram.data_points),
                arrayMap(p -> p.time_unix_nano, m.exponential_histogram.data_points),
                arrayMap(p -> p.time_unix_nano, m.summary.data_points)
            )
        ), s.metrics), b.scope_metrics), request.resource_metrics)) AS items
    FROM otlp_metrics
)
ARRAY JOIN items AS item, arrayEnumerate(items) AS number
WHERE item.2 > received_ns + ahead_ns OR item.2 + least(max_age_ns, toUInt64(34560000000000000)) < received_ns
