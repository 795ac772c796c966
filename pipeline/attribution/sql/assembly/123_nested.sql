-- Pass `target`: of layers that see the same run one names the attempt: the gateway, else the router, the client, the engine.
-- A span takes the outermost naming layer above it, else the one below (a client's span around several gateway calls: the last).
INSERT INTO work_links (pass, trace_id, span_id, at, state)
WITH
    leaves AS (
        SELECT trace_id, span_id, started_ns, transform(toString(layer), ['gateway', 'router', 'client', 'engine'], [1, 2, 3, 4], 5) AS distance
        FROM work_nodes
        WHERE role = 'inference' AND (trace_id, span_id) NOT IN (SELECT trace_id, span_id FROM work_links WHERE pass = 'wrapper')
    ),
    pairs AS (
        SELECT
            n.trace_id AS trace_id, x.span_id AS below, a.span_id AS above, n.step AS hops,
            x.distance AS below_distance, a.distance AS above_distance, x.started_ns AS below_started_ns
        FROM (SELECT trace_id, span_id, at, step FROM work_links WHERE pass = 'nest') AS n
        INNER JOIN leaves AS x ON x.trace_id = n.trace_id AND x.span_id = n.span_id
        INNER JOIN leaves AS a ON a.trace_id = n.trace_id AND a.span_id = n.at
    )
SELECT 'target', trace_id, span_id, argMin(target, choice), 'found'
FROM (
    SELECT trace_id, below AS span_id, above AS target, (0, toInt64(above_distance), toInt64(hops), above) AS choice
    FROM pairs
    WHERE above_distance < below_distance
    UNION ALL
    SELECT trace_id, above, below, (1, toInt64(below_distance), -below_started_ns, below)
    FROM pairs
    WHERE below_distance < above_distance
)
GROUP BY trace_id, span_id
