-- Pass `leg`: spans of one layer that tell of one call (an answer's id is given once): a gateway's trace and its own record of the call, two
-- instrumentations of one SDK -> the first of them, where they overlap it. They are views of it, each counts what it counted.
INSERT INTO work_links (pass, trace_id, span_id, at, state)
SELECT 'leg', trace_id, span_id, first.2, 'found'
FROM (
    SELECT
        n.trace_id AS trace_id,
        n.span_id AS span_id,
        n.started_ns AS started_ns,
        min((n.started_ns, n.span_id, n.ended_ns)) OVER same AS first
    FROM (
        SELECT trace_id, root, span_id, layer, principal, started_ns, ended_ns
        FROM work_nodes
        WHERE role = 'inference' AND layer IN ('gateway', 'client') AND outer = 0 AND (trace_id, root) IN (
            SELECT trace_id, root
            FROM work_nodes
            WHERE role = 'inference' AND layer IN ('gateway', 'client') AND outer = 0 AND root != toFixedString('', 8)
            GROUP BY trace_id, root
            HAVING count() > 1
        )
    ) AS n
    INNER JOIN (SELECT trace_id, span_id, fields['response_id'] AS answer FROM work_facts WHERE role = 'inference' AND layer IN ('gateway', 'client')) AS f
        ON f.trace_id = n.trace_id AND f.span_id = n.span_id
    WHERE f.answer != ''
    WINDOW same AS (PARTITION BY n.trace_id, n.root, n.layer, n.principal, f.answer)
)
WHERE started_ns < first.3 OR span_id = first.2
QUALIFY count() OVER (PARTITION BY trace_id, first.2) > 1
