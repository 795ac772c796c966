-- Every span of the trees that were joined this round. A client's view goes above the request, unless something stands there already.
INSERT INTO work_moves (trace_id, span_id, to_trace, to_parent, orphan_trace, orphan_span)
WITH joined AS (SELECT trace_id, span_id, layer, to_trace, to_span FROM work_adoptions WHERE round = {round:UInt8} AND state = 'joined')
SELECT s.trace_id, s.span_id, j.to_trace, if(s.span_id = j.span_id, if(j.layer = 'client', toFixedString('', 8), j.to_span), s.parent_span_id), j.trace_id, j.span_id
FROM (SELECT trace_id, span_id, parent_span_id FROM work_spans WHERE trace_id IN (SELECT trace_id FROM joined)) AS s
INNER JOIN (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'tree' AND state = 'found') AS t ON t.trace_id = s.trace_id AND t.span_id = s.span_id
INNER JOIN joined AS j ON j.trace_id = t.trace_id AND j.span_id = t.at
UNION ALL
SELECT to_trace, to_span, to_trace, span_id, trace_id, span_id
FROM joined
WHERE layer = 'client'
