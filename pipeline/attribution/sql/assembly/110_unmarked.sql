-- Pass `unmarked`: spans that are no node but a parent of something.
INSERT INTO work_links (pass, step, trace_id, span_id, at, state, stage)
WITH nodes AS (SELECT trace_id, span_id FROM work_facts WHERE role IN ('request', 'inference'))
SELECT
    'unmarked',
    0,
    trace_id,
    span_id,
    parent_span_id,
    multiIf(parent_span_id = toFixedString('', 8), 'nothing', (trace_id, parent_span_id) IN nodes, 'found', 'open'),
    stage
FROM work_spans
WHERE cityHash64(trace_id) % {chunks:UInt32} = {chunk:UInt32} AND (trace_id, span_id) IN (
    SELECT trace_id, parent_span_id
    FROM work_spans
    WHERE cityHash64(trace_id) % {chunks:UInt32} = {chunk:UInt32} AND parent_span_id != toFixedString('', 8) AND (trace_id, parent_span_id) NOT IN nodes
)
