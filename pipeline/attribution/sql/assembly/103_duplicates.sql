-- The same (trace, span) through two principals or hours counts once: the platform's copy, else the one received first.
ALTER TABLE work_spans DELETE WHERE (trace_id, span_id, principal, started_ns) IN (
    SELECT trace_id, span_id, principal, started_ns
    FROM (
        SELECT
            trace_id,
            span_id,
            principal,
            started_ns,
            row_number() OVER (PARTITION BY trace_id, span_id ORDER BY principal != 'platform', received_ns, principal, started_ns) AS copy
        FROM work_spans
        WHERE (trace_id, span_id) IN (SELECT trace_id, span_id FROM work_spans GROUP BY trace_id, span_id HAVING count() > 1)
    )
    WHERE copy > 1
)
SETTINGS mutations_sync = 2
