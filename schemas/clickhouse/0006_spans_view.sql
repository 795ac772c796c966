-- Record -> spans, for spans whose times can be right; the others go to rejected_spans (the same condition, negated).
-- A total function: no expression can throw, whatever the bytes say. Branches are evaluated for every row
-- (short_circuit_function_evaluation is off: masking costs twice the work), so each must be safe on any input.
-- Limits, flagged `cut`: 128 attributes, events and links; keys and names 256 bytes, values 16 KiB, trace state 512 bytes,
-- status message 1 KiB. A character that is cut in two becomes U+FFFD, as bad UTF-8 does.
-- Values: scalars as text (booleans true/false, bytes base64), arrays and maps as JSON text (what nests deeper is null).
-- Each insert analyses this text anew, which takes as long as storing 10,000 spans: about 0.2 ms for each function in it
-- after its lambdas and aliases are copied to where they are used. So steps are sub-queries, lambdas map over single
-- members instead of tuples, and multiIf stands for chains of if (which would also copy each text once per branch).
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_view TO spans AS
WITH
    toUInt64(3600000000000) AS ahead_ns,
    (raw, n) -> toValidUTF8(substring(raw, 1, n)) AS head,
    values -> arrayMap((kind, string, bool, int, double, bytes) -> multiIf(
        kind = 'string_value', toJSONString(toValidUTF8(string)),
        kind = 'int_value', toString(int),
        kind = 'bool_value', if(bool = 0, 'false', 'true'),
        kind = 'double_value', if(isFinite(double), toString(double), 'null'),
        kind = 'bytes_value', concat('"', base64Encode(bytes), '"'),
        'null'
    ), values.kind, values.string_value, values.bool_value, values.int_value, values.double_value, values.bytes_value) AS jsons,
    values -> arrayMap((kind, string, bool, int, double, bytes, list, keys, members) -> multiIf(
        kind = 'string_value', string,
        kind = 'int_value', toString(int),
        kind = 'bool_value', if(bool = 0, 'false', 'true'),
        kind = 'double_value', toString(double),
        kind = 'array_value', concat('[', arrayStringConcat(jsons(list), ','), ']'),
        kind = 'kvlist_value', concat('{', arrayStringConcat(arrayMap((k, json) -> concat(toJSONString(toValidUTF8(k)), ':', json), keys, jsons(members)), ','), '}'),
        base64Encode(bytes)
    ), values.kind, values.string_value, values.bool_value, values.int_value, values.double_value, values.bytes_value,
        values.array_value.values, values.kvlist_value.values.key, values.kvlist_value.values.value) AS texts,
    (raws, n) -> arrayMap(raw -> head(raw, n), arraySlice(raws, 1, 128)) AS heads,
    (keys, texts) -> length(keys) > 128 OR arrayExists((k, t) -> length(k) > 256 OR length(t) > 16384, keys, texts) AS is_cut,
    blocks AS (
        SELECT
            topic, log_partition, log_offset, received_ns, principal, ingest_key,
            reinterpretAsUInt128(sipHash128(topic, log_partition, log_offset)) AS place,
            received_ns + ahead_ns AS latest_ns,
            least(max_age_ns, toUInt64(34560000000000000)) AS age_ns,
            block.resource.attributes.key AS resource_keys,
            texts(block.resource.attributes.value) AS resource_texts,
            block.scope_spans AS scope_blocks,
            block_no
        FROM otlp_traces
        ARRAY JOIN request.resource_spans AS block, arrayEnumerate(request.resource_spans) AS block_no
    ),
    scopes AS (
        SELECT
            topic, log_partition, log_offset, received_ns, latest_ns, age_ns, principal, ingest_key, place,
            mapFromArrays(CAST(heads(resource_keys, 256), 'Array(LowCardinality(String))'), heads(resource_texts, 16384)) AS resource,
            is_cut(resource_keys, resource_texts) AS resource_is_cut,
            head(scope_block.scope.name, 256) AS scope_name,
            head(scope_block.scope.version, 256) AS scope_version,
            scope_block.spans AS spans,
            -- 2^21 scopes and spans: more than a body of 4 MiB can hold.
            (block_no * 2097152 + scope_no) * 2097152 AS scope_place
        FROM blocks
        ARRAY JOIN scope_blocks AS scope_block, arrayEnumerate(scope_blocks) AS scope_no
    ),
    decoded AS (
        SELECT
            topic, log_partition, log_offset, received_ns, latest_ns, age_ns, principal, ingest_key, resource, resource_is_cut, scope_name, scope_version,
            -- Of a span without ids: made from its place in the log, so it is the same at every delivery.
            bitXor(place, toUInt128(scope_place + span_no)) AS own_place,
            trace, id, parent, span_flags, kind_raw, code_raw, start_raw, end_raw, raw_name, raw_trace_state, raw_message,
            attribute_keys, texts(attribute_values) AS attribute_texts,
            event_times, event_names, event_keys,
            arrayMap(v -> texts(v), event_values) AS event_texts,
            links_sent, arrayFilter(link -> if(length(link.trace_id) = 16, length(link.span_id) = 8, 0), links_sent) AS valid_links,
            if(length(trace) = 16, trace != repeat('\0', 16), 0) AS has_trace_id,
            if(length(id) = 8, id != repeat('\0', 8), 0) AS has_span_id
        FROM scopes
        ARRAY JOIN
            spans.trace_id AS trace, spans.span_id AS id, spans.parent_span_id AS parent, spans.flags AS span_flags, spans.kind AS kind_raw,
            spans.status.code AS code_raw, spans.start_time_unix_nano AS start_raw, spans.end_time_unix_nano AS end_raw,
            spans.name AS raw_name, spans.trace_state AS raw_trace_state, spans.status.message AS raw_message,
            spans.attributes.key AS attribute_keys, spans.attributes.value AS attribute_values,
            spans.events.time_unix_nano AS event_times, spans.events.name AS event_names, spans.events.attributes.key AS event_keys,
            spans.events.attributes.value AS event_values, spans.links AS links_sent, arrayEnumerate(spans) AS span_no
        WHERE if(start_raw > latest_ns, 0, if(start_raw + age_ns < received_ns, 0, end_raw <= latest_ns))
    )
SELECT
    toStartOfHour(started_at) AS start_hour,
    if(has_trace_id, toFixedString(substring(trace, 1, 16), 16), reinterpretAsFixedString(own_place)) AS trace_id,
    if(has_span_id, toFixedString(substring(id, 1, 8), 8), reinterpretAsFixedString(toUInt64(own_place))) AS span_id,
    toFixedString(if(length(parent) = 8, substring(parent, 1, 8), ''), 8) AS parent_span_id,
    principal,
    ingest_key,
    head(raw_trace_state, 512) AS trace_state,
    span_flags,
    head(raw_name, 256) AS name,
    CAST(toInt8(if(toUInt64(kind_raw) < 6, kind_raw, 0)), 'Enum8(\'unspecified\' = 0, \'internal\' = 1, \'server\' = 2, \'client\' = 3, \'producer\' = 4, \'consumer\' = 5)') AS kind,
    CAST(toInt8(if(toUInt64(code_raw) < 3, code_raw, 0)), 'Enum8(\'unset\' = 0, \'ok\' = 1, \'error\' = 2)') AS status_code,
    head(raw_message, 1024) AS status_message,
    fromUnixTimestamp64Nano(toInt64(start_raw), 'UTC') AS started_at,
    if(end_raw >= start_raw, toInt64(end_raw - start_raw), NULL) AS duration_ns,
    resource,
    mapFromArrays(CAST(heads(attribute_keys, 256), 'Array(LowCardinality(String))'), heads(attribute_texts, 16384)) AS attributes,
    scope_name,
    scope_version,
    CAST(arraySlice(arrayMap((at, name, keys, texts) -> (
        fromUnixTimestamp64Nano(toInt64(if(at > latest_ns, start_raw, if(at + age_ns < received_ns, start_raw, at))), 'UTC'),
        head(name, 256),
        mapFromArrays(heads(keys, 256), heads(texts, 16384))
    ), event_times, event_names, event_keys, event_texts), 1, 128), 'Array(Tuple(at DateTime64(9, \'UTC\'), name String, attributes Map(String, String)))') AS events,
    arraySlice(arrayMap(link -> (toFixedString(substring(link.trace_id, 1, 16), 16), toFixedString(substring(link.span_id, 1, 8), 8)), valid_links), 1, 128) AS links,
    arrayMap(bit -> ['derived_id', 'end_before_start', 'no_end', 'cut'][bit + 1], bitPositionsToArray(
        toUInt8(if(has_trace_id, NOT has_span_id, 1)) + if(end_raw = 0, 4, if(end_raw < start_raw, 2, 0)) + 8 * (resource_is_cut
            OR is_cut(attribute_keys, attribute_texts) OR arrayExists((name, keys, texts) -> length(name) > 256 OR is_cut(keys, texts), event_names, event_keys, event_texts)
            OR length(event_names) > 128 OR length(valid_links) > 128 OR length(valid_links) != length(links_sent)
            OR length(raw_name) > 256 OR length(raw_message) > 1024 OR length(raw_trace_state) > 512)
    )) AS defects,
    topic, log_partition, log_offset, received_ns
FROM decoded
