-- Which attempt each inference span shows. Usage counts at leaf spans within a layer: a span around another of its own layer shows
-- nothing. Of layers that see the same run one names the attempt: the gateway, else the router, the client, the engine.
INSERT INTO work_calls (trace_id, span_id, root, attempt, island, foreign, outer)
WITH
    calls AS (
        SELECT *, transform(toString(layer), ['gateway', 'router', 'client', 'engine'], [1, 2, 3, 4], 5) AS distance
        FROM work_nodes
        WHERE role = 'inference' AND root != toFixedString('', 8)
    ),
    nests AS (SELECT trace_id, span_id, at, step FROM work_links WHERE pass = 'nest'),
    wrappers AS (
        SELECT n.trace_id, n.at
        FROM nests AS n
        INNER JOIN calls AS inner ON inner.trace_id = n.trace_id AND inner.span_id = n.span_id
        INNER JOIN calls AS around ON around.trace_id = n.trace_id AND around.span_id = n.at
        WHERE inner.layer = around.layer
    ),
    leaves AS (SELECT * FROM calls WHERE outer = 0 AND (trace_id, span_id) NOT IN wrappers),
    -- Nested: the outermost naming layer above, else below (a client's span around several gateway calls shows the last).
    nested AS (
        SELECT trace_id, span_id, argMin(target, choice) AS target
        FROM (
            SELECT n.trace_id AS trace_id, n.span_id AS span_id, n.at AS target, (0, toInt64(a.distance), toInt64(n.step), n.at) AS choice
            FROM nests AS n
            INNER JOIN leaves AS x ON x.trace_id = n.trace_id AND x.span_id = n.span_id
            INNER JOIN leaves AS a ON a.trace_id = n.trace_id AND a.span_id = n.at
            WHERE a.distance < x.distance
            UNION ALL
            SELECT n.trace_id, n.at, n.span_id, (1, toInt64(y.distance), -y.started_ns, n.span_id)
            FROM nests AS n
            INNER JOIN leaves AS y ON y.trace_id = n.trace_id AND y.span_id = n.span_id
            INNER JOIN leaves AS x ON x.trace_id = n.trace_id AND x.span_id = n.at
            WHERE y.distance < x.distance
        )
        GROUP BY trace_id, span_id
    ),
    naming AS (SELECT * FROM leaves WHERE (trace_id, span_id) NOT IN (SELECT trace_id, span_id FROM nested)),
    -- Not nested, but inside the interval of exactly one: the two longest reaching of those that began before are enough to see that.
    inside AS (
        SELECT e.trace_id AS trace_id, e.span_id AS span_id, g.reach[1].2 AS target
        FROM (SELECT trace_id, root, span_id, started_ns, ended_ns FROM naming WHERE layer = 'engine') AS e
        ASOF INNER JOIN (
            SELECT
                trace_id,
                root,
                started_ns,
                groupArraySorted(2)((-ended_ns, span_id)) OVER (PARTITION BY trace_id, root ORDER BY started_ns) AS reach
            FROM naming
            WHERE distance <= 3 AND (trace_id, root) IN (SELECT trace_id, root FROM naming WHERE layer = 'engine')
        ) AS g ON g.trace_id = e.trace_id AND g.root = e.root AND e.started_ns >= g.started_ns
        WHERE -g.reach[1].1 >= e.ended_ns AND (length(g.reach) = 1 OR -g.reach[2].1 < e.ended_ns)
    ),
    targets AS (
        SELECT trace_id, span_id, target FROM nested
        UNION ALL
        SELECT trace_id, span_id, target FROM inside
    ),
    aimed AS (
        SELECT
            l.trace_id AS trace_id,
            l.span_id AS span_id,
            l.root AS root,
            l.island AS island,
            l.foreign AS foreign,
            if(t.target = toFixedString('', 8), l.island, t.target) AS target
        FROM leaves AS l
        LEFT JOIN targets AS t ON t.trace_id = l.trace_id AND t.span_id = l.span_id
    )
SELECT
    a.trace_id,
    a.span_id,
    a.root,
    if(i.island = toFixedString('', 8), a.target, i.island),
    a.island,
    a.foreign,
    0
FROM aimed AS a
LEFT JOIN (SELECT trace_id, span_id, island FROM leaves WHERE island != span_id) AS i ON i.trace_id = a.trace_id AND i.span_id = a.target
UNION ALL
-- A client's view from above the gateway span shows the request's last attempt.
SELECT o.trace_id, o.span_id, o.root, n.attempt, o.island, o.foreign, 1
FROM (SELECT * FROM calls WHERE outer = 1) AS o
INNER JOIN (
    SELECT trace_id, root, argMax(island, (started_ns, span_id)) AS attempt
    FROM naming
    WHERE (trace_id, root) IN (SELECT trace_id, root FROM calls WHERE outer = 1)
    GROUP BY trace_id, root
) AS n ON n.trace_id = o.trace_id AND n.root = o.root
