-- Spans that go with 103 and are no copies of the one that stays: other times or another parent under the same ids.
INSERT INTO work_left_out (window_from, run_id, principal, reason, spans)
SELECT toDateTime(intDiv(started_ns - started_ns % {window_ns:Int64}, 1000000000), 'UTC') AS at, {run_id:UInt64}, principal, 'reused_id', count()
FROM (
    SELECT
        principal,
        started_ns,
        row_number() OVER copies AS copy,
        (started_ns, ended_ns, parent_span_id) AS same,
        first_value(same) OVER copies AS kept
    FROM work_spans
    WHERE (trace_id, span_id) IN (SELECT trace_id, span_id FROM work_spans GROUP BY trace_id, span_id HAVING count() > 1)
    WINDOW copies AS (PARTITION BY trace_id, span_id ORDER BY principal != 'platform', received_ns, principal, started_ns)
)
WHERE copy > 1 AND toString(same) != toString(kept)
GROUP BY at, principal
