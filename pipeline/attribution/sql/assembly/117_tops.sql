-- Pass `top`: inference spans that belong to no request span, up through those that they may join.
INSERT INTO work_links (pass, step, trace_id, span_id, at, state)
WITH alone AS (
    SELECT trace_id, span_id, principal
    FROM work_facts
    WHERE role = 'inference' AND trace_id IN (SELECT trace_id FROM work_links WHERE pass = 'mark' AND hard = 1)
        AND (trace_id, span_id) NOT IN (SELECT trace_id, span_id FROM work_links WHERE pass = 'root')
)
SELECT
    'top',
    0,
    x.trace_id,
    x.span_id,
    if(m.span_id != toFixedString('', 8) AND x.principal IN ('platform', m.principal), m.span_id, x.span_id) AS at,
    if(at = x.span_id, 'found', 'open')
FROM (
    SELECT a.trace_id AS trace_id, a.span_id AS span_id, a.principal AS principal, l.at AS mark
    FROM alone AS a
    INNER JOIN (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'mark') AS l ON l.trace_id = a.trace_id AND l.span_id = a.span_id
) AS x
LEFT ANY JOIN alone AS m ON m.trace_id = x.trace_id AND m.span_id = x.mark
