-- Spans that spans_view leaves out. Messages without one are passed over before anything is unfolded.
CREATE MATERIALIZED VIEW IF NOT EXISTS rejected_spans_view TO rejected_spans AS
WITH
    toUInt64(3600000000000) AS ahead_ns,
    (text, n) -> toValidUTF8(substring(text, 1, n)) AS head,
    (s, received, age) -> if(s.start_time_unix_nano > received + ahead_ns OR s.start_time_unix_nano + least(age, toUInt64(34560000000000000)) < received,
        'start_out_of_range', if(s.end_time_unix_nano > received + ahead_ns, 'end_out_of_range', '')) AS why
SELECT
    topic, log_partition, log_offset, toUInt32(number - 1) AS item_no,
    why(item.2, received_ns, max_age_ns) AS reason,
    principal,
    item.1 AS service_name,
    head(item.2.name, 256) AS name,
    lower(hex(substring(item.2.trace_id, 1, 32))) AS trace_id,
    lower(hex(substring(item.2.span_id, 1, 32))) AS span_id,
    item.2.start_time_unix_nano AS start_raw,
    item.2.end_time_unix_nano AS end_raw,
    received_ns
FROM (
    SELECT
        topic, log_partition, log_offset, received_ns, max_age_ns, principal,
        arrayFlatten(arrayMap(b -> arrayMap(s -> arrayMap(span -> (
            head(arrayFirst(p -> p.key = 'service.name', b.resource.attributes).value.string_value, 256),
            span
        ), s.spans), b.scope_spans), request.resource_spans)) AS items
    FROM otlp_traces
    WHERE arrayExists(b -> arrayExists(s -> arrayExists(span -> why(span, received_ns, max_age_ns) != '', s.spans), b.scope_spans), request.resource_spans)
)
ARRAY JOIN items AS item, arrayEnumerate(items) AS number
WHERE reason != ''
