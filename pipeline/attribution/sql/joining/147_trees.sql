-- Pass `tree`: what stands under the orphans that found somebody.
INSERT INTO work_links (pass, step, trace_id, span_id, at, state)
WITH tops AS (SELECT trace_id, span_id FROM work_matches)
SELECT
    'tree',
    0,
    trace_id,
    span_id,
    if((trace_id, span_id) IN tops, span_id, parent_span_id),
    multiIf((trace_id, span_id) IN tops, 'found', parent_span_id = toFixedString('', 8), 'nothing', 'open')
FROM work_spans
WHERE trace_id IN (SELECT trace_id FROM work_matches)
