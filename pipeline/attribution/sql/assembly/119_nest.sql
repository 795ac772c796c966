-- Pass `nest`, first hop: inference spans whose nearest node above is an inference span of the same request.
INSERT INTO work_links (pass, step, trace_id, span_id, at, state)
WITH calls AS (SELECT trace_id, span_id, root FROM work_nodes WHERE role = 'inference' AND root != toFixedString('', 8) AND outer = 0)
SELECT 'nest', 1, l.trace_id, l.span_id, l.at, 'found'
FROM (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'mark' AND state = 'found' AND at != span_id AND trace_id IN (SELECT trace_id FROM work_links WHERE pass = 'mark' AND hard = 1)) AS l
INNER JOIN calls AS inner ON inner.trace_id = l.trace_id AND inner.span_id = l.span_id
INNER JOIN calls AS around ON around.trace_id = l.trace_id AND around.span_id = l.at
WHERE inner.root = around.root
