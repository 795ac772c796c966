-- Pass `claim`: the tenant of a platform request, by the platform's own spans: the request span, else its inference spans, the earliest first.
-- Only for traces in which a tenant's spans lie too: they may join no other tenant's request.
INSERT INTO work_links (pass, trace_id, span_id, viewer, state)
WITH
    (
        SELECT groupArray((alias, tenant))
        FROM (SELECT arrayJoin(aliases) AS alias, tenant FROM tenants WHERE config_hash = {config_hash:String} ORDER BY alias, tenant)
    ) AS named,
    mixed AS (SELECT trace_id FROM work_spans WHERE principal != 'platform' AND cityHash64(trace_id) % {chunks:UInt32} = {chunk:UInt32})
SELECT 'claim', trace_id, root, concat('tenant/', transform(argMin(tenant, rank), named.1, named.2, argMin(tenant, rank))), 'found'
FROM (
    SELECT trace_id, span_id AS root, fields['tenant'] AS tenant, (0, started_ns, span_id) AS rank
    FROM work_facts
    WHERE role = 'request' AND principal = 'platform' AND trace_id IN mixed
    UNION ALL
    SELECT s.trace_id, l.at, s.fields['tenant'], (1, s.started_ns, s.span_id)
    FROM (
        SELECT trace_id, span_id, started_ns, fields
        FROM work_facts
        WHERE role = 'inference' AND principal = 'platform' AND trace_id IN mixed
    ) AS s
    INNER JOIN (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'above' AND state = 'found' AND viewer = 'platform') AS l
        ON l.trace_id = s.trace_id AND l.span_id = s.span_id
)
WHERE tenant != ''
GROUP BY trace_id, root
