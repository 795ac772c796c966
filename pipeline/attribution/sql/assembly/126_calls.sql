-- Which attempt each inference span shows: the first of the siblings that its target, or the first leg, or itself, belongs to.
INSERT INTO work_calls (trace_id, span_id, root, attempt, island, foreign, outer)
WITH
    calls AS (SELECT trace_id, span_id, root, island, foreign, outer, started_ns FROM work_nodes WHERE role = 'inference' AND root != toFixedString('', 8)),
    targets AS (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'target'),
    inner_calls AS (
        SELECT * FROM calls WHERE outer = 0 AND (trace_id, span_id) NOT IN (SELECT trace_id, span_id FROM work_links WHERE pass = 'wrapper')
    ),
    aimed AS (
        SELECT
            c.trace_id AS trace_id,
            c.span_id AS span_id,
            c.root AS root,
            c.island AS island,
            c.foreign AS foreign,
            arrayFirst(at -> at != toFixedString('', 8), [t.at, f.at, l.at, c.island]) AS target
        FROM inner_calls AS c
        LEFT ANY JOIN targets AS t ON t.trace_id = c.trace_id AND t.span_id = c.span_id
        LEFT ANY JOIN (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'leg' AND at != span_id) AS l
            ON l.trace_id = c.trace_id AND l.span_id = c.span_id
        LEFT ANY JOIN targets AS f ON f.trace_id = c.trace_id AND f.span_id = l.at
    )
SELECT
    a.trace_id,
    a.span_id,
    a.root,
    arrayFirst(at -> at != toFixedString('', 8), [v.at, s.island, a.target]),
    a.island,
    a.foreign,
    0
FROM aimed AS a
LEFT ANY JOIN (SELECT trace_id, span_id, island FROM calls WHERE island != span_id) AS s ON s.trace_id = a.trace_id AND s.span_id = a.target
LEFT ANY JOIN (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'leg' AND at != span_id) AS v ON v.trace_id = a.trace_id AND v.span_id = a.target
UNION ALL
-- A client's view from above the gateway span shows the request's last attempt.
SELECT o.trace_id, o.span_id, o.root, n.attempt, o.island, o.foreign, 1
FROM (SELECT * FROM calls WHERE outer = 1) AS o
INNER JOIN (
    SELECT trace_id, root, argMax(island, (started_ns, span_id)) AS attempt
    FROM inner_calls
    WHERE (trace_id, root) IN (SELECT trace_id, root FROM calls WHERE outer = 1) AND (trace_id, span_id) NOT IN (SELECT trace_id, span_id FROM targets)
        AND (trace_id, span_id) NOT IN (SELECT trace_id, span_id FROM work_links WHERE pass = 'leg' AND at != span_id)
    GROUP BY trace_id, root
) AS n ON n.trace_id = o.trace_id AND n.root = o.root
