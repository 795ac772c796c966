SELECT count()
FROM (SELECT trace_id, span_id FROM work_spans GROUP BY trace_id, span_id HAVING count() > 1)

