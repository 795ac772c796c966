-- What has a request or call of the platform above it after all, or runs in a circle, is no orphan.
INSERT INTO work_adoptions (trace_id, span_id, layer, state)
SELECT trace_id, span_id, layer, 'below'
FROM work_orphans
WHERE parent_span_id != toFixedString('', 8)
    AND (trace_id, span_id) NOT IN (SELECT trace_id, span_id FROM work_links WHERE pass = 'orphan' AND state = 'nothing')
