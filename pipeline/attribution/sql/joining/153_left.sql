DELETE FROM work_spans WHERE (trace_id, span_id) IN (
    SELECT trace_id, span_id
    FROM work_moves
    WHERE (orphan_trace, orphan_span) NOT IN (SELECT trace_id, span_id FROM work_adoptions WHERE state = 'ambiguous')
)
