-- Record -> spans. A total function: no expression here can throw, whatever the bytes say (tests/sql/test_ingest_views.py).
-- Limits: 128 attributes, events and links each, keys and names 256 bytes, values 16 KiB, messages 1 KiB; what is cut is
-- flagged. Values: scalars as text (booleans true/false, bytes base64), arrays and maps as JSON text (nested ones null).
CREATE MATERIALIZED VIEW IF NOT EXISTS traces_view TO decoded_spans AS
WITH
    (v, n) -> if(length(v) <= n, v, substring(v, 1, n - arrayFirst(k -> bitAnd(ascii(substring(v, n + 1 - k, 1)), 192) != 128, [0, 1, 2, 3]))) AS cut,
    s -> multiIf(
        s.kind = 'string_value', toJSONString(toValidUTF8(s.string_value)),
        s.kind = 'int_value', toString(s.int_value),
        s.kind = 'bool_value', if(s.bool_value = 0, 'false', 'true'),
        s.kind = 'double_value' AND isFinite(s.double_value), toString(s.double_value),
        s.kind = 'bytes_value', concat('"', base64Encode(s.bytes_value), '"'),
        'null') AS json,
    v -> multiIf(
        v.kind = 'string_value', toValidUTF8(v.string_value),
        v.kind = 'int_value', toString(v.int_value),
        v.kind = 'bool_value', if(v.bool_value = 0, 'false', 'true'),
        v.kind = 'double_value', toString(v.double_value),
        v.kind = 'array_value', concat('[', arrayStringConcat(arrayMap(s -> json(s), v.array_value.values), ','), ']'),
        v.kind = 'kvlist_value', concat('{', arrayStringConcat(arrayMap(e -> concat(toJSONString(toValidUTF8(e.key)), ':', json(e.value)), v.kvlist_value.values), ','), '}'),
        v.kind = 'bytes_value', base64Encode(v.bytes_value),
        '') AS text,
    pairs -> arrayMap(p -> (cut(toValidUTF8(p.key), 256), cut(text(p.value), 16384)), arraySlice(pairs, 1, 128)) AS attribute_pairs,
    pairs -> length(pairs) > 128 OR arrayExists(p -> length(p.key) > 256 OR length(p.value.string_value) > 16384, pairs) AS is_cut,
    toUInt64(3600000000000) AS ahead_ns,
    length(span.trace_id) = 16 AND span.trace_id != unhex('00000000000000000000000000000000') AS has_trace_id,
    length(span.span_id) = 8 AND span.span_id != unhex('0000000000000000') AS has_span_id
SELECT
    multiIf(
        start_raw > received_ns + ahead_ns OR start_raw + max_age_ns < received_ns, 'start_out_of_range',
        end_raw > received_ns + ahead_ns, 'end_out_of_range',
        '') AS reason,
    item_no,
    substring(span.trace_id, 1, 64) AS raw_trace_id,
    substring(span.span_id, 1, 64) AS raw_span_id,
    span.start_time_unix_nano AS start_raw,
    span.end_time_unix_nano AS end_raw,
    toStartOfHour(started_at) AS start_hour,
    if(has_trace_id, toFixedString(substring(span.trace_id, 1, 16), 16), sipHash128(topic, log_partition, log_offset, item_no)) AS trace_id,
    if(has_span_id, toFixedString(substring(span.span_id, 1, 8), 8), reinterpretAsFixedString(sipHash64(topic, log_partition, log_offset, item_no))) AS span_id,
    toFixedString(if(length(span.parent_span_id) = 8, substring(span.parent_span_id, 1, 8), ''), 8) AS parent_span_id,
    principal,
    ingest_key,
    cut(toValidUTF8(span.trace_state), 512) AS trace_state,
    span.flags AS span_flags,
    cut(toValidUTF8(span.name), 256) AS name,
    CAST(toInt8(if(span.kind BETWEEN 0 AND 5, span.kind, 0)), 'Enum8(\'unspecified\' = 0, \'internal\' = 1, \'server\' = 2, \'client\' = 3, \'producer\' = 4, \'consumer\' = 5)') AS kind,
    CAST(toInt8(if(span.status.code BETWEEN 0 AND 2, span.status.code, 0)), 'Enum8(\'unset\' = 0, \'ok\' = 1, \'error\' = 2)') AS status_code,
    cut(toValidUTF8(span.status.message), 1024) AS status_message,
    fromUnixTimestamp64Nano(toInt64(if(reason = '', start_raw, received_ns)), 'UTC') AS started_at,
    if(reason = '' AND end_raw >= start_raw, toInt64(end_raw - start_raw), NULL) AS duration_ns,
    resource,
    CAST(attribute_pairs(span.attributes), 'Map(LowCardinality(String), String)') AS attributes,
    scope_name,
    scope_version,
    CAST(arrayMap(e -> (
        fromUnixTimestamp64Nano(toInt64(if(e.time_unix_nano <= received_ns + ahead_ns AND e.time_unix_nano + max_age_ns >= received_ns, e.time_unix_nano, toUnixTimestamp64Nano(started_at))), 'UTC'),
        cut(toValidUTF8(e.name), 256),
        CAST(attribute_pairs(e.attributes), 'Map(String, String)')
    ), arraySlice(span.events, 1, 128)), 'Array(Tuple(at DateTime64(9, \'UTC\'), name String, attributes Map(String, String)))') AS events,
    CAST(arrayMap(l -> (toFixedString(substring(l.trace_id, 1, 16), 16), toFixedString(substring(l.span_id, 1, 8), 8)),
        arraySlice(arrayFilter(l -> length(l.trace_id) = 16 AND length(l.span_id) = 8, span.links), 1, 128)),
        'Array(Tuple(trace_id FixedString(16), span_id FixedString(8)))') AS links,
    arrayFilter(d -> d != '', [
        if(has_trace_id AND has_span_id, '', 'derived_id'),
        multiIf(end_raw = 0, 'no_end', end_raw < start_raw, 'end_before_start', ''),
        if(resource_is_cut OR length(span.name) > 256 OR length(span.status.message) > 1024 OR length(span.trace_state) > 512
            OR is_cut(span.attributes) OR length(span.events) > 128 OR length(links) != length(span.links), 'cut', '')
    ]) AS defects,
    topic, log_partition, log_offset, received_ns
FROM (
    SELECT
        topic, log_partition, log_offset, received_ns, max_age_ns, principal, ingest_key, resource, resource_is_cut,
        cut(toValidUTF8(scope_block.scope.name), 256) AS scope_name,
        cut(toValidUTF8(scope_block.scope.version), 256) AS scope_version,
        toUInt32(spans_before + span_no - 1) AS item_no,
        span
    FROM (
        SELECT
            topic, log_partition, log_offset, received_ns, max_age_ns, principal, ingest_key,
            CAST(attribute_pairs(block.resource.attributes), 'Map(LowCardinality(String), String)') AS resource,
            is_cut(block.resource.attributes) AS resource_is_cut,
            scope_block,
            block_before + scope_before AS spans_before
        FROM (
            SELECT
                topic, log_partition, log_offset, received_ns, principal, ingest_key,
                least(max_age_ns, toUInt64(34560000000000000)) AS max_age_ns,
                block, block_before
            FROM otlp_traces
            ARRAY JOIN
                request.resource_spans AS block,
                arrayPopBack(arrayPushFront(arrayCumSum(arrayMap(b -> arraySum(arrayMap(s -> length(s.spans), b.scope_spans)), request.resource_spans)), 0)) AS block_before
        )
        ARRAY JOIN
            block.scope_spans AS scope_block,
            arrayPopBack(arrayPushFront(arrayCumSum(arrayMap(s -> length(s.spans), block.scope_spans)), 0)) AS scope_before
    )
    ARRAY JOIN scope_block.spans AS span, arrayEnumerate(scope_block.spans) AS span_no
)
