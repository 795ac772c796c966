-- Orphans that a round of joining can help.
SELECT count()
FROM work_orphans
WHERE has({orphans:Array(String)}, toString(layer))
    AND ({by_key:UInt8} = 0 OR arrayExists(x -> startsWith(x.2, 'key '), ids))
    AND (trace_id, span_id) NOT IN (SELECT trace_id, span_id FROM work_adoptions)
