-- Record -> spans, for spans whose times can be right; the others go to rejected_spans (the same condition, negated).
-- A total function: no expression can throw, whatever the bytes say. Branches are evaluated for every row
-- (short_circuit_function_evaluation is off: masking costs twice the work), so each must be safe on any input.
-- Limits, flagged `cut`: 128 attributes, events and links; keys and names 256 bytes, values 16 KiB, status message 1 KiB.
-- Values: scalars as text (booleans true/false, bytes base64), arrays and maps as JSON text (what nests deeper is null).
-- The steps are sub-queries, and conditions are `if` rather than AND, because each insert analyses this text anew: as one
-- SELECT it takes 0.3 s (an alias is copied wherever it is used), like this 0.05 s.
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_view TO spans AS
WITH
    toUInt64(3600000000000) AS ahead_ns,
    (text, n) -> toValidUTF8(substring(text, 1, n)) AS head,
    (text, n) -> substring(text, 1, n - if(bitAnd(ascii(substring(text, n + 1, 1)), 192) != 128, 0,
        if(bitAnd(ascii(substring(text, n, 1)), 192) != 128, 1, if(bitAnd(ascii(substring(text, n - 1, 1)), 192) != 128, 2, 3)))) AS cut,
    s -> if(s.kind = 'string_value', toJSONString(toValidUTF8(s.string_value)),
        if(s.kind = 'int_value', toString(s.int_value),
        if(s.kind = 'bool_value', if(s.bool_value = 0, 'false', 'true'),
        if(s.kind = 'double_value', if(isFinite(s.double_value), toString(s.double_value), 'null'),
        if(s.kind = 'bytes_value', concat('"', base64Encode(s.bytes_value), '"'), 'null'))))) AS json,
    v -> if(v.kind = 'string_value', v.string_value,
        if(v.kind = 'int_value', toString(v.int_value),
        if(v.kind = 'bool_value', if(v.bool_value = 0, 'false', 'true'),
        if(v.kind = 'double_value', toString(v.double_value),
        if(v.kind = 'array_value', concat('[', arrayStringConcat(arrayMap(s -> json(s), v.array_value.values), ','), ']'),
        if(v.kind = 'kvlist_value', concat('{', arrayStringConcat(arrayMap(e -> concat(toJSONString(toValidUTF8(e.key)), ':', json(e.value)), v.kvlist_value.values), ','), '}'),
        base64Encode(v.bytes_value))))))) AS text,
    pairs -> arrayMap(p -> (p.key, text(p.value)), pairs) AS texts,
    pairs -> arraySlice(arrayMap(t -> (head(t.1, 256), head(t.2, 16384)), pairs), 1, 128) AS limited,
    pairs -> length(pairs) > 128 OR arrayExists(t -> length(t.1) > 256 OR length(t.2) > 16384, pairs) AS is_cut,
    blocks AS (
        SELECT
            topic, log_partition, log_offset, received_ns, principal, ingest_key,
            sipHash128(topic, log_partition, log_offset) AS place,
            least(max_age_ns, toUInt64(34560000000000000)) AS age_ns,
            texts(block.resource.attributes) AS resource_texts,
            block.scope_spans AS scope_blocks,
            arrayMap(n -> spans_before + n, arrayCumSum(arrayMap(s -> length(s.spans), block.scope_spans))) AS spans_to
        FROM otlp_traces
        ARRAY JOIN
            request.resource_spans AS block,
            arrayPopBack(arrayPushFront(arrayCumSum(arrayMap(b -> arraySum(arrayMap(s -> length(s.spans), b.scope_spans)), request.resource_spans)), 0)) AS spans_before
    ),
    scopes AS (
        SELECT
            topic, log_partition, log_offset, received_ns, age_ns, principal, ingest_key, place,
            CAST(limited(resource_texts), 'Map(LowCardinality(String), String)') AS resource,
            is_cut(resource_texts) AS resource_is_cut,
            head(scope_block.scope.name, 256) AS scope_name,
            head(scope_block.scope.version, 256) AS scope_version,
            scope_block.spans AS spans,
            span_to - length(scope_block.spans) AS spans_before
        FROM blocks
        ARRAY JOIN scope_blocks AS scope_block, spans_to AS span_to
    ),
    decoded AS (
        SELECT
            topic, log_partition, log_offset, received_ns, age_ns, principal, ingest_key, resource, resource_is_cut, scope_name, scope_version,
            -- Of a span without ids: made from its place in the log, so it is the same at every delivery.
            bitXor(reinterpretAsUInt128(place), toUInt128(spans_before + number)) AS own_place,
            span.trace_id AS trace,
            span.span_id AS id,
            span.parent_span_id AS parent,
            span.flags AS span_flags,
            span.kind AS kind_raw,
            span.status.code AS code_raw,
            span.start_time_unix_nano AS start_raw,
            span.end_time_unix_nano AS end_raw,
            toValidUTF8(span.name) AS clean_name,
            toValidUTF8(span.trace_state) AS clean_trace_state,
            toValidUTF8(span.status.message) AS clean_message,
            texts(span.attributes) AS attribute_texts,
            arrayMap(e -> (e.time_unix_nano, toValidUTF8(e.name), texts(e.attributes)), span.events) AS event_texts,
            arrayFilter(l -> if(length(l.trace_id) = 16, length(l.span_id) = 8, 0), span.links) AS valid_links,
            length(span.links) AS links_sent
        FROM scopes
        ARRAY JOIN spans AS span, arrayEnumerate(spans) AS number
        WHERE if(start_raw > received_ns + ahead_ns, 0, if(start_raw + age_ns < received_ns, 0, end_raw <= received_ns + ahead_ns))
    ),
    checked AS (
        SELECT
            *,
            if(length(trace) = 16, trace != repeat('\0', 16), 0) AS has_trace_id,
            if(length(id) = 8, id != repeat('\0', 8), 0) AS has_span_id,
            resource_is_cut OR is_cut(attribute_texts) OR arrayExists(e -> length(e.2) > 256 OR is_cut(e.3), event_texts)
                OR length(event_texts) > 128 OR length(valid_links) > 128 OR length(valid_links) != links_sent
                OR length(clean_name) > 256 OR length(clean_message) > 1024 OR length(clean_trace_state) > 512 AS is_cut_span
        FROM decoded
    )
SELECT
    toStartOfHour(started_at) AS start_hour,
    if(has_trace_id, toFixedString(substring(trace, 1, 16), 16), reinterpretAsFixedString(own_place)) AS trace_id,
    if(has_span_id, toFixedString(substring(id, 1, 8), 8), reinterpretAsFixedString(toUInt64(own_place))) AS span_id,
    toFixedString(if(length(parent) = 8, substring(parent, 1, 8), ''), 8) AS parent_span_id,
    principal,
    ingest_key,
    cut(clean_trace_state, 512) AS trace_state,
    span_flags,
    cut(clean_name, 256) AS name,
    CAST(toInt8(if(toUInt64(kind_raw) < 6, kind_raw, 0)), 'Enum8(\'unspecified\' = 0, \'internal\' = 1, \'server\' = 2, \'client\' = 3, \'producer\' = 4, \'consumer\' = 5)') AS kind,
    CAST(toInt8(if(toUInt64(code_raw) < 3, code_raw, 0)), 'Enum8(\'unset\' = 0, \'ok\' = 1, \'error\' = 2)') AS status_code,
    cut(clean_message, 1024) AS status_message,
    fromUnixTimestamp64Nano(toInt64(start_raw), 'UTC') AS started_at,
    if(end_raw >= start_raw, toInt64(end_raw - start_raw), NULL) AS duration_ns,
    resource,
    CAST(limited(attribute_texts), 'Map(LowCardinality(String), String)') AS attributes,
    scope_name,
    scope_version,
    CAST(arrayMap(e -> (
        fromUnixTimestamp64Nano(toInt64(if(e.1 > received_ns + ahead_ns, start_raw, if(e.1 + age_ns < received_ns, start_raw, e.1))), 'UTC'),
        cut(e.2, 256),
        CAST(limited(e.3), 'Map(String, String)')
    ), arraySlice(event_texts, 1, 128)), 'Array(Tuple(at DateTime64(9, \'UTC\'), name String, attributes Map(String, String)))') AS events,
    CAST(arrayMap(l -> (toFixedString(substring(l.trace_id, 1, 16), 16), toFixedString(substring(l.span_id, 1, 8), 8)), arraySlice(valid_links, 1, 128)),
        'Array(Tuple(trace_id FixedString(16), span_id FixedString(8)))') AS links,
    arrayMap(bit -> ['derived_id', 'end_before_start', 'no_end', 'cut'][bit + 1], bitPositionsToArray(
        toUInt8(if(has_trace_id, NOT has_span_id, 1)) + if(end_raw = 0, 4, if(end_raw < start_raw, 2, 0)) + 8 * is_cut_span
    )) AS defects,
    topic, log_partition, log_offset, received_ns
FROM checked
