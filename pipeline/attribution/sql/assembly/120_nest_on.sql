-- Pass `nest`, the next hop.
INSERT INTO work_links (pass, step, trace_id, span_id, at, state)
SELECT 'nest', {step:UInt8} + 1, n.trace_id, n.span_id, o.at, 'found'
FROM (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'nest' AND step = {step:UInt8}) AS n
INNER JOIN (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'nest' AND step = 1) AS o ON o.trace_id = n.trace_id AND o.span_id = n.at
WHERE o.at != n.span_id
