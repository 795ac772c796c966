SELECT count()
FROM (
    SELECT 1
    FROM work_spans
    WHERE rule IN {rank_rules:Array(UInt32)} AND sibling != ''
    GROUP BY trace_id, parent_span_id, principal, sibling
    HAVING count() > 1
)
