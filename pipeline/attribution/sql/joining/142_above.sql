-- Pass `orphan`: up from possible orphans through spans that are no request or call of the platform.
INSERT INTO work_links (pass, step, trace_id, span_id, at, state)
WITH
    asked AS (SELECT trace_id FROM work_orphans WHERE parent_span_id != toFixedString('', 8)),
    nodes AS (SELECT trace_id, span_id FROM work_spans WHERE role IN ('request', 'inference') AND principal = 'platform' AND trace_id IN asked)
SELECT
    'orphan',
    0,
    trace_id,
    span_id,
    parent_span_id,
    multiIf(parent_span_id = toFixedString('', 8), 'nothing', (trace_id, parent_span_id) IN nodes, 'found', 'open')
FROM work_spans
WHERE trace_id IN asked
    AND ((trace_id, span_id) NOT IN nodes OR (trace_id, span_id) IN (SELECT trace_id, span_id FROM work_orphans))
