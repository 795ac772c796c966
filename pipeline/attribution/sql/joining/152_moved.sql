-- A record of a request is none of its own where its gateway's trace shows the request.
INSERT INTO work_moved
SELECT s.* REPLACE (m.to_trace AS trace_id, m.to_parent AS parent_span_id, if(m.top AND s.role = 'request', 'none', toString(s.role)) AS role)
FROM work_spans AS s
INNER JOIN (
    SELECT trace_id, span_id, to_trace, to_parent, (trace_id, span_id) = (orphan_trace, orphan_span) AS top
    FROM work_moves
    WHERE (orphan_trace, orphan_span) NOT IN (SELECT trace_id, span_id FROM work_adoptions WHERE state = 'ambiguous')
) AS m ON m.trace_id = s.trace_id AND m.span_id = s.span_id
