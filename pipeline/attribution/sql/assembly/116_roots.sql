-- Pass `root`: only the platform's spans, or the request's own tenant's, may join a request.
INSERT INTO work_links (pass, trace_id, span_id, viewer, at, state)
SELECT 'root', n.trace_id, n.span_id, r.principal, a.at, 'found'
FROM (SELECT trace_id, span_id, principal FROM work_facts WHERE role = 'inference' AND trace_id IN (SELECT trace_id FROM work_links WHERE pass = 'mark' AND hard = 1)) AS n
INNER JOIN (SELECT trace_id, span_id, viewer, at FROM work_links WHERE pass = 'above' AND state = 'found') AS a
    ON a.trace_id = n.trace_id AND a.span_id = n.span_id AND a.viewer = n.principal
INNER JOIN (SELECT trace_id, span_id, principal FROM work_facts WHERE role = 'request') AS r ON r.trace_id = a.trace_id AND r.span_id = a.at
WHERE n.principal = r.principal
    OR (a.trace_id, a.at, n.principal) IN (SELECT trace_id, span_id, viewer FROM work_links WHERE pass = 'claim')
