-- Pass `leg`: engine spans of one inference on several workers -> the first of them. They carry the same id that the stack made for it
-- (`join_key`); or one worker ran well and made one token at most, and the next one of the same id ran elsewhere (a prefill, and the decode
-- that took over). `within`: 1 prefill, 2 decode; `stage`: 1 if what it calls cached is only what the other worker sent.
INSERT INTO work_links (pass, trace_id, span_id, at, state, within, stage)
WITH engines AS (
    SELECT
        n.trace_id AS trace_id, n.root AS root, n.span_id AS span_id, n.principal AS principal, n.started_ns AS started_ns, n.ended_ns AS ended_ns,
        f.failed AS failed, f.resource_key AS worker,
        f.fields['join_key'] AS key,
        f.fields['response_id'] AS id,
        multiIf(f.fields['phase'] = '', 0, f.fields['phase'] = 'prefill', 1, 2) AS phase,
        toUInt64OrNull(f.fields['output_tokens']) AS output
    FROM (
        SELECT trace_id, root, span_id, principal, started_ns, ended_ns
        FROM work_nodes
        WHERE role = 'inference' AND layer = 'engine' AND outer = 0 AND (trace_id, root) IN (
            SELECT trace_id, root
            FROM work_nodes
            WHERE role = 'inference' AND layer = 'engine' AND outer = 0 AND root != toFixedString('', 8)
            GROUP BY trace_id, root
            HAVING count() > 1
        )
    ) AS n
    INNER JOIN (SELECT trace_id, span_id, failed, resource_key, fields FROM work_facts WHERE role = 'inference' AND layer = 'engine') AS f
        ON f.trace_id = n.trace_id AND f.span_id = n.span_id
),
keyed AS (
    SELECT
        trace_id, span_id,
        min((started_ns, span_id)) OVER same AS first,
        count() OVER same AS legs,
        multiIf(phase > 0, phase, span_id = first.2, 1, 2) AS half
    FROM engines
    WHERE key != ''
    WINDOW same AS (PARTITION BY trace_id, root, principal, key)
),
handed AS (
    SELECT
        trace_id, span_id,
        leadInFrame((span_id, worker, started_ns)) OVER later AS next,
        next.1 != toFixedString('', 8) AND next.2 != worker AND failed = 0
            AND (phase = 1 OR ifNull(output <= 1 AND next.3 >= ended_ns, 0)) AS over
    FROM engines
    WHERE key = '' AND id != ''
    WINDOW later AS (PARTITION BY trace_id, root, principal, id ORDER BY started_ns, span_id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
)
SELECT 'leg', trace_id, span_id, first.2, 'found', half, half = 2
FROM keyed
WHERE legs > 1
UNION ALL
SELECT 'leg', trace_id, leg.1, span_id, 'found', leg.2, leg.2 = 2
FROM (SELECT trace_id, span_id, arrayJoin([(span_id, 1), (next.1, 2)]) AS leg FROM handed WHERE over)
