-- Pass `mark`: of each node, the nearest node above it.
INSERT INTO work_links (pass, step, trace_id, span_id, at, state)
WITH nodes AS (SELECT trace_id, span_id FROM work_spans WHERE role IN ('request', 'inference'))
SELECT
    'mark',
    0,
    s.trace_id,
    s.span_id,
    if(direct, s.parent_span_id, l.at) AS at,
    if(direct OR at != toFixedString('', 8), 'found', 'nothing')
FROM (
    SELECT trace_id, span_id, parent_span_id, (trace_id, parent_span_id) IN nodes AS direct
    FROM work_spans
    WHERE role IN ('request', 'inference')
) AS s
LEFT ANY JOIN (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'unmarked' AND state = 'found') AS l
    ON l.trace_id = s.trace_id AND l.span_id = s.parent_span_id
