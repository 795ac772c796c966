-- Stage spans, gathered per parent and principal first: one group follows one node, so the join is over groups and not over spans.
INSERT INTO work_stages (trace_id, root, attempt, principal, within, intervals, hints, facts)
WITH
    (
        SELECT (
            groupArray((cityHash64(resource_key, epoch), replica)),
            arraySort(groupUniqArrayIf(until_ns, until_ns < {read_to_ns:Int64}))
        )
        FROM work_replicas
    ) AS replicas,
    groups AS (
        SELECT
            trace_id,
            parent_span_id,
            principal,
            arraySort(groupArrayIf(
                (
                    stage,
                    started_ns,
                    assumeNotNull(ended_ns),
                    if(
                        resource_key = 0,
                        '',
                        transform(cityHash64(resource_key, toUInt32(arrayCount(t -> t <= started_ns, replicas.2))), replicas.1.1, replicas.1.2, '')
                    )
                ),
                stage > 0 AND isNotNull(ended_ns)
            )) AS intervals,
            arraySort(x -> (x.1, x.2), groupArrayIf((started_ns, span_id, ended_ns, failed, fields), role = 'attempt_hint')) AS hints,
            arraySort(
                x -> (x.2, x.3),
                groupArrayIf((stage, started_ns, span_id, delivery_proof, fields), notEmpty(fields) OR stage = indexOf({stages:Array(String)}, 'stream'))
            ) AS facts
        FROM work_spans
        WHERE role IN ('stage', 'attempt_hint')
        GROUP BY trace_id, parent_span_id, principal
    ),
    nodes AS (SELECT trace_id, span_id FROM work_nodes),
    followed AS (
        SELECT
            g.*,
            if((g.trace_id, g.parent_span_id) IN nodes, g.parent_span_id, u.at) AS mark,
            if(u.stage != 0, u.stage, u.within) AS within
        FROM groups AS g
        LEFT JOIN (SELECT * FROM work_links WHERE pass = 'unmarked' AND state != 'open') AS u
            ON u.trace_id = g.trace_id AND u.span_id = g.parent_span_id
    )
SELECT f.trace_id, n.root, c.attempt, f.principal, f.within, f.intervals, f.hints, f.facts
FROM followed AS f
INNER JOIN work_nodes AS n ON n.trace_id = f.trace_id AND n.span_id = f.mark
LEFT JOIN work_calls AS c ON c.trace_id = f.trace_id AND c.span_id = f.mark
WHERE n.root != toFixedString('', 8)
    AND n.outer = 0
    AND multiIf(
        f.principal = 'platform',
        (f.trace_id, n.root) NOT IN (SELECT trace_id, span_id FROM work_nodes WHERE role = 'request' AND principal != 'platform'),
        (f.trace_id, n.root, f.principal) IN (SELECT trace_id, span_id, principal FROM work_nodes WHERE principal != 'platform')
            OR (f.trace_id, n.root, f.principal) IN (SELECT trace_id, span_id, viewer FROM work_links WHERE pass = 'claim')
    )
