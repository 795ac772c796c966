-- How many requests several engine spans show, and how many both an engine and another layer show.
SELECT countIf(engines > 1), countIf(engines > 0 AND others > 0)
FROM (
    SELECT countIf(layer = 'engine') AS engines, countIf(layer IN ('gateway', 'router', 'client')) AS others
    FROM work_nodes
    WHERE role = 'inference' AND outer = 0 AND root != toFixedString('', 8)
    GROUP BY trace_id, root
)
