-- Pass `target`: engine spans that are not nested, but lie inside the interval of exactly one span of another layer of the same request.
-- Of the spans that began before, the two that reach furthest are enough to see that.
INSERT INTO work_links (pass, trace_id, span_id, at, state)
WITH naming AS (
    SELECT trace_id, root, span_id, layer, started_ns, ended_ns
    FROM work_nodes
    WHERE role = 'inference' AND outer = 0 AND root != toFixedString('', 8)
        AND (trace_id, span_id) NOT IN (SELECT trace_id, span_id FROM work_links WHERE pass IN ('target', 'wrapper') OR (pass = 'leg' AND within = 0 AND at != span_id))
)
SELECT 'target', e.trace_id, e.span_id, g.reach[1].2, 'found'
FROM (SELECT trace_id, root, span_id, started_ns, ended_ns FROM naming WHERE layer = 'engine') AS e
ASOF INNER JOIN (
    SELECT
        trace_id,
        root,
        started_ns,
        groupArraySorted(2)((-ended_ns, span_id)) OVER (PARTITION BY trace_id, root ORDER BY started_ns) AS reach
    FROM naming
    WHERE layer IN ('gateway', 'router', 'client') AND (trace_id, root) IN (SELECT trace_id, root FROM naming WHERE layer = 'engine')
) AS g ON g.trace_id = e.trace_id AND g.root = e.root AND e.started_ns >= g.started_ns
WHERE -g.reach[1].1 >= e.ended_ns AND (length(g.reach) = 1 OR -g.reach[2].1 < e.ended_ns)
