-- Record -> samples, one row a data point. A total function like spans_view, with the same limits and texts.
-- A summary is one row with count and sum, and one a quantile with attribute `quantile`, as Prometheus has it.
-- A point that is flagged as having no recorded value has neither value nor count: its series ends there.
-- An exponential histogram gets explicit bounds: negative buckets, the zero bucket, positive buckets, in rising order.
CREATE MATERIALIZED VIEW IF NOT EXISTS samples_view TO samples AS
WITH
    toUInt64(3600000000000) AS ahead_ns,
    bad -> toValidUTF8(bad) AS clean,
    (text, n) -> toValidUTF8(substring(text, 1, n)) AS head,
    s -> if(s.kind = 'string_value', toJSONString(clean(s.string_value)),
        if(s.kind = 'int_value', toString(s.int_value),
        if(s.kind = 'bool_value', if(s.bool_value = 0, 'false', 'true'),
        if(s.kind = 'double_value' AND isFinite(s.double_value), toString(s.double_value),
        if(s.kind = 'bytes_value', concat('"', base64Encode(s.bytes_value), '"'), 'null'))))) AS json,
    v -> if(v.kind = 'string_value', v.string_value,
        if(v.kind = 'int_value', toString(v.int_value),
        if(v.kind = 'bool_value', if(v.bool_value = 0, 'false', 'true'),
        if(v.kind = 'double_value', toString(v.double_value),
        if(v.kind = 'array_value', concat('[', arrayStringConcat(arrayMap(s -> json(s), v.array_value.values), ','), ']'),
        if(v.kind = 'kvlist_value', concat('{', arrayStringConcat(arrayMap(e -> concat(toJSONString(clean(e.key)), ':', json(e.value)), v.kvlist_value.values), ','), '}'),
        base64Encode(v.bytes_value))))))) AS text,
    pairs -> arraySlice(arrayMap(p -> (head(p.key, 256), head(text(p.value), 16384)), pairs), 1, 128) AS texts,
    CAST(NULL, 'Nullable(Float64)') AS no_float,
    CAST(NULL, 'Nullable(Int64)') AS no_int,
    CAST(NULL, 'Nullable(UInt64)') AS no_count,
    CAST([], 'Array(Float64)') AS no_bounds,
    CAST([], 'Array(UInt64)') AS no_counts,
    (buckets, scale) -> arrayMap(i -> exp2((buckets.offset + i) * exp2(-toFloat64(scale))), range(if(empty(buckets.bucket_counts), 0, length(buckets.bucket_counts) + 1))) AS edges,
    p -> arrayConcat(arrayReverse(arrayMap(x -> -x, edges(p.negative, p.scale))), edges(p.positive, p.scale)) AS explicit_bounds,
    p -> arrayConcat(
        if(empty(p.negative.bucket_counts), no_counts, arrayPushFront(arrayReverse(p.negative.bucket_counts), 0)),
        [p.zero_count],
        if(empty(p.positive.bucket_counts), no_counts, arrayPushBack(p.positive.bucket_counts, 0))) AS explicit_counts,
    (p, x) -> if(bitAnd(p.flags, 1) = 1, NULL, x) AS told,
    (kind, p, value, value_int, count, sum, bounds, counts, pairs) -> (
        kind, p.start_time_unix_nano, p.time_unix_nano, told(p, toNullable(value)), told(p, toNullable(value_int)), told(p, toNullable(count)),
        told(p, toNullable(sum)), bounds, counts, pairs
    ) AS point
SELECT
    item.3 AS metric,
    sipHash64(arraySort(item.1), item.2, arraySort(item.5.10)) AS series_id,
    fromUnixTimestamp64Nano(toInt64(item.5.3), 'UTC') AS at,
    fromUnixTimestamp64Nano(toInt64(if(item.5.2 <= received_ns + ahead_ns, item.5.2, 0)), 'UTC') AS start_at,
    CAST(toInt8(item.5.1), 'Enum8(\'gauge\' = 1, \'sum_delta\' = 2, \'sum_cumulative\' = 3, \'histogram_delta\' = 4, \'histogram_cumulative\' = 5, \'summary\' = 6, \'exponential_histogram_delta\' = 7, \'exponential_histogram_cumulative\' = 8)') AS kind,
    item.4 AS unit,
    item.5.4 AS value,
    item.5.5 AS value_int,
    item.5.6 AS count,
    item.5.7 AS sum,
    item.5.8 AS bounds,
    item.5.9 AS bucket_counts,
    CAST(item.1, 'Map(LowCardinality(String), String)') AS resource,
    CAST(item.5.10, 'Map(LowCardinality(String), String)') AS attributes,
    principal, topic, log_partition, log_offset, received_ns
FROM (
    SELECT
        topic, log_partition, log_offset, received_ns, max_age_ns, principal,
        arrayJoin(arrayFlatten(arrayMap(b -> arrayMap(s -> arrayMap(m -> arrayMap(
            point -> (texts(b.resource.attributes), head(s.scope.name, 256), head(m.name, 256), head(m.unit, 64), point),
            arrayConcat(
                arrayMap(p -> point(1, p, p.as_double, p.as_int, no_count, no_float, no_bounds, no_counts, texts(p.attributes)), m.gauge.data_points),
                arrayMap(p -> point(if(m.sum.aggregation_temporality = 1, 2, 3), p, p.as_double, p.as_int, no_count, no_float, no_bounds, no_counts, texts(p.attributes)), m.sum.data_points),
                arrayMap(p -> point(if(m.histogram.aggregation_temporality = 1, 4, 5), p, no_float, no_int, p.count, p.sum, p.explicit_bounds, p.bucket_counts, texts(p.attributes)), m.histogram.data_points),
                arrayMap(p -> point(if(m.exponential_histogram.aggregation_temporality = 1, 7, 8), p, no_float, no_int, p.count, p.sum, explicit_bounds(p), explicit_counts(p), texts(p.attributes)), m.exponential_histogram.data_points),
                arrayMap(p -> point(6, p, no_float, no_int, p.count, p.sum, no_bounds, no_counts, texts(p.attributes)), m.summary.data_points),
                arrayFlatten(arrayMap(p -> arrayMap(
                    q -> point(6, p, q.value, no_int, no_count, no_float, no_bounds, no_counts, arrayPushBack(texts(p.attributes), ('quantile', toString(q.quantile)))), p.quantile_values
                ), m.summary.data_points))
            )
        ), s.metrics), b.scope_metrics), request.resource_metrics))) AS item
    FROM otlp_metrics
)
WHERE item.5.3 <= received_ns + ahead_ns AND item.5.3 + least(max_age_ns, toUInt64(34560000000000000)) >= received_ns
