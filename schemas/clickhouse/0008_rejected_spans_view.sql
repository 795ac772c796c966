CREATE MATERIALIZED VIEW IF NOT EXISTS rejected_spans_view TO rejected_spans AS
SELECT
    topic, log_partition, log_offset, item_no, reason, principal,
    resource['service.name'] AS service_name, name,
    raw_trace_id AS trace_id, raw_span_id AS span_id, start_raw, end_raw, received_ns
FROM decoded_spans
WHERE reason != ''
