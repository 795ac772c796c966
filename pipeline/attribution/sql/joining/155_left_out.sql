-- Trees of stages that stay alone because nobody can say whose they are. Calls that do stay are requests, flagged.
INSERT INTO work_left_out (window_from, run_id, principal, reason, spans)
SELECT toDateTime(intDiv(started_ns - started_ns % {window_ns:Int64}, 1000000000), 'UTC') AS at, {run_id:UInt64}, 'platform', 'ambiguous_id', count()
FROM work_spans
WHERE principal = 'platform' AND role = 'stage' AND (trace_id, span_id) IN (SELECT trace_id, span_id FROM work_adoptions WHERE state = 'ambiguous')
GROUP BY at
