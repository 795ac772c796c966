-- Ranks that each report the same work (siblings of an ignored span): what hangs under the first of them stays, the others' goes.
ALTER TABLE work_spans DELETE WHERE (trace_id, parent_span_id, principal) IN (
    SELECT trace_id, span_id, principal
    FROM (
        SELECT
            trace_id,
            span_id,
            principal,
            row_number() OVER (PARTITION BY trace_id, parent_span_id, principal, sibling ORDER BY started_ns, span_id) AS place
        FROM work_spans
        WHERE rule IN {rank_rules:Array(UInt32)} AND sibling != ''
    )
    WHERE place > 1
)
SETTINGS mutations_sync = 2
