-- Record -> spans, for spans whose times can be right; the others go to rejected_spans (same condition, negated).
-- A total function: no expression can throw, whatever the bytes say. Branches are evaluated for every row
-- (short_circuit_function_evaluation is off: masking costs twice the work), so each must be safe on any input.
-- Limits, flagged `cut`: 128 attributes, events and links; keys and names 256 bytes, values 16 KiB, status message 1 KiB.
-- Values: scalars as text (booleans true/false, bytes base64), arrays and maps as JSON text (what nests deeper is null).
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_view TO spans AS
WITH
    toUInt64(3600000000000) AS ahead_ns,
    bad -> toValidUTF8(bad) AS clean,
    (text, n) -> toValidUTF8(substring(text, 1, n)) AS head,
    (text, n) -> if(length(text) > n AND endsWith(head(text, n), '\xEF\xBF\xBD'), substring(head(text, n), 1, length(head(text, n)) - 3), head(text, n)) AS cut,
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
    pairs -> arrayMap(p -> (p.key, text(p.value)), pairs) AS texts,
    pairs -> arraySlice(arrayMap(t -> (head(t.1, 256), head(t.2, 16384)), texts(pairs)), 1, 128) AS attribute_pairs,
    pairs -> length(pairs) > 128 OR arrayExists(t -> length(t.1) > 256 OR length(t.2) > 16384, texts(pairs)) AS is_cut,
    span.start_time_unix_nano AS start_raw,
    span.end_time_unix_nano AS end_raw,
    length(span.trace_id) = 16 AND span.trace_id != repeat('\0', 16) AS has_trace_id,
    length(span.span_id) = 8 AND span.span_id != repeat('\0', 8) AS has_span_id
SELECT
    toStartOfHour(started_at) AS start_hour,
    if(has_trace_id, toFixedString(substring(span.trace_id, 1, 16), 16), sipHash128('trace', topic, log_partition, log_offset, item_no)) AS trace_id,
    if(has_span_id, toFixedString(substring(span.span_id, 1, 8), 8), reinterpretAsFixedString(sipHash64('span', topic, log_partition, log_offset, item_no))) AS span_id,
    toFixedString(if(length(span.parent_span_id) = 8, substring(span.parent_span_id, 1, 8), ''), 8) AS parent_span_id,
    principal,
    ingest_key,
    cut(clean(span.trace_state), 512) AS trace_state,
    span.flags AS span_flags,
    cut(clean(span.name), 256) AS name,
    CAST(toInt8(if(span.kind BETWEEN 0 AND 5, span.kind, 0)), 'Enum8(\'unspecified\' = 0, \'internal\' = 1, \'server\' = 2, \'client\' = 3, \'producer\' = 4, \'consumer\' = 5)') AS kind,
    CAST(toInt8(if(span.status.code BETWEEN 0 AND 2, span.status.code, 0)), 'Enum8(\'unset\' = 0, \'ok\' = 1, \'error\' = 2)') AS status_code,
    cut(clean(span.status.message), 1024) AS status_message,
    fromUnixTimestamp64Nano(toInt64(start_raw), 'UTC') AS started_at,
    if(end_raw >= start_raw, toInt64(end_raw - start_raw), NULL) AS duration_ns,
    resource,
    CAST(attribute_pairs(span.attributes), 'Map(LowCardinality(String), String)') AS attributes,
    scope_name,
    scope_version,
    CAST(arrayMap(e -> (
        fromUnixTimestamp64Nano(toInt64(if(e.time_unix_nano <= received_ns + ahead_ns AND e.time_unix_nano + max_age_ns >= received_ns, e.time_unix_nano, start_raw)), 'UTC'),
        cut(clean(e.name), 256),
        CAST(attribute_pairs(e.attributes), 'Map(String, String)')
    ), arraySlice(span.events, 1, 128)), 'Array(Tuple(at DateTime64(9, \'UTC\'), name String, attributes Map(String, String)))') AS events,
    CAST(arrayMap(l -> (toFixedString(substring(l.trace_id, 1, 16), 16), toFixedString(substring(l.span_id, 1, 8), 8)),
        arraySlice(arrayFilter(l -> length(l.trace_id) = 16 AND length(l.span_id) = 8, span.links), 1, 128)),
        'Array(Tuple(trace_id FixedString(16), span_id FixedString(8)))') AS links,
    arrayMap(bit -> ['derived_id', 'end_before_start', 'no_end', 'cut'][bit + 1], bitPositionsToArray(
        toUInt8(NOT has_trace_id OR NOT has_span_id)
        + 2 * (end_raw != 0 AND end_raw < start_raw)
        + 4 * (end_raw = 0)
        + 8 * (resource_is_cut OR is_cut(span.attributes) OR length(span.name) > 256 OR length(span.status.message) > 1024
            OR length(span.trace_state) > 512 OR length(links) != length(span.links) OR length(span.events) > 128
            OR arrayExists(e -> length(e.name) > 256 OR is_cut(e.attributes), span.events)))) AS defects,
    topic, log_partition, log_offset, received_ns
FROM (
    SELECT
        topic, log_partition, log_offset, received_ns, max_age_ns, principal, ingest_key, resource, resource_is_cut,
        cut(clean(scope_block.scope.name), 256) AS scope_name,
        cut(clean(scope_block.scope.version), 256) AS scope_version,
        scope_block.spans AS spans,
        spans_before
    FROM (
        SELECT
            topic, log_partition, log_offset, received_ns, max_age_ns, principal, ingest_key,
            CAST(attribute_pairs(block.resource.attributes), 'Map(LowCardinality(String), String)') AS resource,
            is_cut(block.resource.attributes) AS resource_is_cut,
            block.scope_spans AS scope_blocks,
            arrayMap(n -> block_before + n, arrayCumSum(arrayMap(s -> length(s.spans), block.scope_spans))) AS spans_to
        FROM otlp_traces
        ARRAY JOIN
            request.resource_spans AS block,
            arrayPopBack(arrayPushFront(arrayCumSum(arrayMap(b -> arraySum(arrayMap(s -> length(s.spans), b.scope_spans)), request.resource_spans)), 0)) AS block_before
    )
    ARRAY JOIN scope_blocks AS scope_block, arrayMap((s, n) -> n - length(s.spans), scope_blocks, spans_to) AS spans_before
)
ARRAY JOIN spans AS span, arrayMap(n -> toUInt32(spans_before + n - 1), arrayEnumerate(spans)) AS item_no
WHERE start_raw <= received_ns + ahead_ns AND start_raw + least(max_age_ns, toUInt64(34560000000000000)) >= received_ns AND end_raw <= received_ns + ahead_ns
