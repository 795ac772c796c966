-- Pass `mark`: of each node, the nearest node above it.
-- Plain: the platform's inference span under the platform's request span or under nothing, and the platform's request span under nothing.
INSERT INTO work_links (pass, step, trace_id, span_id, at, state, hard)
WITH nodes AS (SELECT trace_id, span_id, parent_span_id, principal, role FROM work_facts WHERE role IN ('request', 'inference'))
SELECT
    'mark',
    0,
    s.trace_id,
    s.span_id,
    s.mark AS at,
    if(at = toFixedString('', 8), 'nothing', 'found'),
    multiIf(s.principal != 'platform', 1, at = toFixedString('', 8), 0, s.role != 'inference' OR m.role != 'request' OR m.principal != 'platform')
FROM (
    SELECT
        n.trace_id AS trace_id,
        n.span_id AS span_id,
        n.principal AS principal,
        n.role AS role,
        if((n.trace_id, n.parent_span_id) IN (SELECT trace_id, span_id FROM nodes), n.parent_span_id, l.at) AS mark
    FROM nodes AS n
    LEFT ANY JOIN (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'unmarked' AND state = 'found') AS l
        ON l.trace_id = n.trace_id AND l.span_id = n.parent_span_id
) AS s
LEFT ANY JOIN nodes AS m ON m.trace_id = s.trace_id AND m.span_id = s.mark
