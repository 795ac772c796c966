-- Requests and inference spans with the request that each belongs to. Without a request span the outermost inference span is the root;
-- of siblings (n > 1: same id, same parent, overlapping in time) the first by (start, span id), for all of them.
INSERT INTO work_nodes
WITH
    siblings AS (
        SELECT
            trace_id,
            span_id,
            min((started_ns, span_id)) OVER (PARTITION BY trace_id, parent_span_id, principal, sibling, island_no) AS first
        FROM (
            SELECT
                *,
                sum(toUInt32(started_ns >= reached_ns)) OVER (
                    PARTITION BY trace_id, parent_span_id, principal, sibling ORDER BY started_ns, span_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                ) AS island_no
            FROM (
                SELECT
                    trace_id, span_id, parent_span_id, principal, sibling, started_ns,
                    max(coalesce(ended_ns, started_ns)) OVER (
                        PARTITION BY trace_id, parent_span_id, principal, sibling ORDER BY started_ns, span_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                    ) AS reached_ns
                FROM work_facts
                WHERE role = 'inference' AND sibling != ''
            )
        )
    ),
    islands AS (SELECT trace_id, span_id, first.2 AS island FROM siblings WHERE first.2 != span_id),
    requests AS (SELECT trace_id, span_id, principal FROM work_facts WHERE role = 'request'),
    -- Plain traces: the mark is the request. Others: pass `root`.
    roots AS (
        SELECT trace_id, span_id, at
        FROM work_links
        WHERE pass = 'root'
            OR (pass = 'mark' AND state = 'found' AND trace_id NOT IN (SELECT trace_id FROM work_links WHERE pass = 'mark' AND hard = 1))
    ),
    tops AS (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'top' AND state = 'found'),
    -- Inference spans around a request span: the client's view of it, which is no request of its own.
    outers AS (
        SELECT
            w.trace_id AS trace_id,
            w.top AS top,
            min(w.request) AS request,
            argMin(w.request_principal, w.request) AS request_principal,
            uniqExact(w.request) AS requests
        FROM (
            SELECT u.trace_id AS trace_id, if(t.at = toFixedString('', 8), u.around, t.at) AS top, u.request AS request, u.principal AS request_principal
            FROM (
                SELECT l.trace_id AS trace_id, l.at AS around, r.span_id AS request, r.principal AS principal
                FROM (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'mark' AND state = 'found' AND trace_id IN (SELECT trace_id FROM work_links WHERE pass = 'mark' AND hard = 1)) AS l
                INNER JOIN requests AS r ON r.trace_id = l.trace_id AND r.span_id = l.span_id
                INNER JOIN (SELECT trace_id, span_id, principal FROM work_facts WHERE role = 'inference') AS i
                    ON i.trace_id = l.trace_id AND i.span_id = l.at
                WHERE (l.trace_id, l.at) NOT IN (SELECT trace_id, span_id FROM roots)
                    AND (
                        i.principal IN ('platform', r.principal)
                        OR (r.trace_id, r.span_id, i.principal) IN (SELECT trace_id, span_id, viewer FROM work_links WHERE pass = 'claim')
                    )
            ) AS u
            LEFT ANY JOIN tops AS t ON t.trace_id = u.trace_id AND t.span_id = u.around
        ) AS w
        GROUP BY w.trace_id, w.top
    ),
    placed AS (
        SELECT
            s.trace_id AS trace_id,
            s.span_id AS span_id,
            s.role AS role,
            s.layer AS layer,
            s.principal AS principal,
            s.started_ns AS started_ns,
            coalesce(s.ended_ns, s.started_ns) AS ended_ns,
            multiIf(
                s.role = 'request', s.span_id,
                r.at != toFixedString('', 8), r.at,
                t.at != toFixedString('', 8), t.at,
                s.span_id
            ) AS outermost,
            s.role = 'inference' AND r.at = toFixedString('', 8) AS alone
        FROM (
            SELECT trace_id, span_id, role, layer, principal, started_ns, ended_ns
            FROM work_facts
            WHERE role IN ('request', 'inference')
        ) AS s
        LEFT ANY JOIN roots AS r ON r.trace_id = s.trace_id AND r.span_id = s.span_id
        LEFT ANY JOIN tops AS t ON t.trace_id = s.trace_id AND t.span_id = s.span_id
    )
SELECT
    trace_id,
    span_id,
    role,
    layer,
    principal,
    started_ns,
    ended_ns,
    multiIf(
        outer AND requests = 1, request,
        outer, toFixedString('', 8),
        alone AND first_sibling != toFixedString('', 8), first_sibling,
        outermost
    ),
    island,
    outer,
    -- It stands at the top although something is above it: it was not let in.
    alone AND NOT outer AND (requests > 0 OR (outermost = span_id AND (trace_id, span_id) IN (
        SELECT trace_id, span_id FROM work_links WHERE pass = 'mark' AND state = 'found' AND at != span_id
    )))
FROM (
    SELECT
        p.trace_id AS trace_id,
        p.span_id AS span_id,
        p.role AS role,
        p.layer AS layer,
        p.principal AS principal,
        p.started_ns AS started_ns,
        p.ended_ns AS ended_ns,
        p.outermost AS outermost,
        p.alone AS alone,
        f.island AS first_sibling,
        if(i.island = toFixedString('', 8), p.span_id, i.island) AS island,
        o.request AS request,
        o.requests AS requests,
        o.requests > 0 AND (
            p.principal IN ('platform', o.request_principal)
            OR (p.trace_id, o.request, p.principal) IN (SELECT trace_id, span_id, viewer FROM work_links WHERE pass = 'claim')
        ) AS outer
    FROM placed AS p
    LEFT ANY JOIN islands AS i ON i.trace_id = p.trace_id AND i.span_id = p.span_id
    LEFT ANY JOIN islands AS f ON f.trace_id = p.trace_id AND f.span_id = p.outermost
    LEFT ANY JOIN outers AS o ON p.alone AND o.trace_id = p.trace_id AND o.top = p.outermost
)
