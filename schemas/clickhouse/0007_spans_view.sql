CREATE MATERIALIZED VIEW IF NOT EXISTS spans_view TO spans AS
SELECT * EXCEPT (reason, item_no, raw_trace_id, raw_span_id, start_raw, end_raw)
FROM decoded_spans
WHERE reason = ''
