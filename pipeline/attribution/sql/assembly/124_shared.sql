-- Are there requests that both an engine and another layer show?
SELECT count()
FROM (
    SELECT trace_id, root
    FROM work_nodes
    WHERE role = 'inference' AND outer = 0 AND root != toFixedString('', 8)
    GROUP BY trace_id, root
    HAVING countIf(layer = 'engine') > 0 AND countIf(layer IN ('gateway', 'router', 'client')) > 0
)
