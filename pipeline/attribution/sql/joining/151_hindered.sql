-- Orphans that cannot go where they belong: a span of theirs has an id that is taken there, or something else stands above the request.
INSERT INTO work_adoptions (trace_id, span_id, round, layer, state)
SELECT trace_id, span_id, round, layer, 'ambiguous'
FROM work_adoptions
WHERE round = {round:UInt8} AND state = 'joined' AND (trace_id, span_id) IN (
    SELECT orphan_trace, orphan_span
    FROM (
        SELECT
            orphan_trace, orphan_span, trace_id, span_id, to_trace,
            count() OVER (PARTITION BY to_trace, span_id) AS claims
        FROM work_moves
    )
    WHERE claims > 1 OR (trace_id != to_trace AND (to_trace, span_id) IN (SELECT trace_id, span_id FROM work_spans WHERE trace_id IN (SELECT to_trace FROM work_moves)))
    UNION ALL
    SELECT m.orphan_trace, m.orphan_span
    FROM work_moves AS m
    INNER JOIN (SELECT trace_id, span_id, parent_span_id FROM work_spans WHERE trace_id IN (SELECT to_trace FROM work_moves)) AS r
        ON r.trace_id = m.trace_id AND r.span_id = m.span_id
    WHERE (m.orphan_trace, m.orphan_span, m.trace_id, m.span_id) IN (
        SELECT trace_id, span_id, to_trace, to_span FROM work_adoptions WHERE round = {round:UInt8} AND layer = 'client'
    )
        AND (r.trace_id, r.parent_span_id) IN (SELECT trace_id, span_id FROM work_spans WHERE trace_id IN (SELECT to_trace FROM work_moves))
)
