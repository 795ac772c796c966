-- Pass `holder`: the request of the platform that a holder belongs to, where that matters: several holders of one request are one, and a
-- client's view goes above the request.
INSERT INTO work_links (pass, step, trace_id, span_id, at, state)
WITH requests AS (SELECT trace_id, span_id FROM work_spans WHERE role = 'request' AND principal = 'platform')
SELECT
    'holder',
    0,
    trace_id,
    span_id,
    if((trace_id, span_id) IN requests, span_id, parent_span_id),
    multiIf((trace_id, span_id) IN requests, 'found', parent_span_id = toFixedString('', 8), 'nothing', 'open')
FROM work_spans
WHERE trace_id IN (
    SELECT to_trace
    FROM work_matches
    WHERE layer = 'client' OR (trace_id, span_id) IN (SELECT trace_id, span_id FROM work_matches GROUP BY trace_id, span_id HAVING uniqExact((to_trace, to_span)) > 1)
)
