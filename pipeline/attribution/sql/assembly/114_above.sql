-- Pass `above`: a tenant's request span can be joined by that tenant only, so the way up depends on who looks.
INSERT INTO work_links (pass, step, trace_id, span_id, viewer, at, state)
SELECT
    'above',
    0,
    n.trace_id,
    n.span_id,
    viewer,
    n.at,
    multiIf(n.state = 'nothing', 'nothing', m.role = 'request' AND m.principal IN ('platform', viewer), 'found', 'open')
FROM (
    SELECT l.trace_id AS trace_id, l.span_id AS span_id, l.at AS at, l.state AS state, arrayPushFront(v.tenants, 'platform') AS viewers
    FROM (SELECT trace_id, span_id, at, state FROM work_links WHERE pass = 'mark' AND trace_id IN (SELECT trace_id FROM work_links WHERE pass = 'mark' AND hard = 1)) AS l
    LEFT ANY JOIN (
        SELECT trace_id, arraySort(groupUniqArray(toString(principal))) AS tenants
        FROM work_spans
        WHERE principal != 'platform' AND cityHash64(trace_id) % {chunks:UInt32} = {chunk:UInt32}
        GROUP BY trace_id
    ) AS v ON v.trace_id = l.trace_id
) AS n
LEFT ANY JOIN (SELECT trace_id, span_id, role, principal FROM work_facts WHERE role IN ('request', 'inference')) AS m
    ON m.trace_id = n.trace_id AND m.span_id = n.at
ARRAY JOIN n.viewers AS viewer
