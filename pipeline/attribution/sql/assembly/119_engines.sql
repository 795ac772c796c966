-- How many requests several engine spans show, several spans of a gateway or client, and both an engine and another layer.
SELECT countIf(engines > 1), countIf(fronts > 1), countIf(engines > 0 AND others > 0)
FROM (
    SELECT countIf(layer = 'engine') AS engines, countIf(layer IN ('gateway', 'client')) AS fronts, countIf(layer IN ('gateway', 'router', 'client')) AS others
    FROM work_nodes
    WHERE role = 'inference' AND outer = 0 AND root != toFixedString('', 8)
    GROUP BY trace_id, root
)
