-- Stage spans, gathered per parent and principal first: one group follows one node, so the join is over groups and not over spans.
INSERT INTO work_stages (trace_id, root, attempt, principal, within, intervals, hints, facts)
WITH
    (
        SELECT (
            arraySort(groupArray((cityHash64(resource_key, epoch), replica, listed))),
            arraySort(groupUniqArrayIf(until_ns, until_ns < {read_to_ns:Int64}))
        )
        FROM work_replicas
    ) AS replicas,
    groups AS (
        SELECT
            trace_id,
            parent_span_id,
            principal,
            -- Four arrays of numbers: groupArray of a tuple costs several times as much.
            arrayZip(groupArrayIf(stage, drawn), groupArrayIf(started_ns, drawn), groupArrayIf(assumeNotNull(ended_ns), drawn), groupArrayIf(place, drawn)) AS intervals,
            [] AS hints,
            [] AS facts
        FROM (
            SELECT
                trace_id, parent_span_id, principal, started_ns, ended_ns, stage,
                stage > 0 AND isNotNull(ended_ns) AS drawn,
                transform(
                    if(resource_key = 0, 0, cityHash64(resource_key, toUInt32(arrayCount(t -> t <= started_ns, replicas.2)))),
                    replicas.1.1, arrayMap(n -> toUInt32(n), arrayEnumerate(replicas.1)), toUInt32(0)
                ) AS place
            FROM work_spans
            WHERE cityHash64(trace_id) % {chunks:UInt32} = {chunk:UInt32} AND role IN ('stage', 'attempt_hint')
        )
        GROUP BY trace_id, parent_span_id, principal
        UNION ALL
        SELECT
            trace_id,
            parent_span_id,
            principal,
            [],
            groupArrayIf((started_ns, span_id, ended_ns, failed, fields), role = 'attempt_hint'),
            groupArrayIf((stage, started_ns, span_id, delivery_proof, fields), role = 'stage')
        FROM work_facts
        WHERE role IN ('stage', 'attempt_hint')
        GROUP BY trace_id, parent_span_id, principal
    ),
    nodes AS (SELECT trace_id, span_id FROM work_nodes),
    followed AS (
        SELECT
            g.trace_id AS trace_id,
            g.principal AS principal,
            g.intervals AS intervals,
            g.hints AS hints,
            g.facts AS facts,
            if((g.trace_id, g.parent_span_id) IN nodes, g.parent_span_id, u.at) AS mark,
            if(u.stage != 0, u.stage, u.within) AS within
        FROM groups AS g
        LEFT ANY JOIN (SELECT * FROM work_links WHERE pass = 'unmarked' AND state != 'open') AS u
            ON u.trace_id = g.trace_id AND u.span_id = g.parent_span_id
    )
SELECT f.trace_id, n.root, c.attempt, f.principal, f.within, f.intervals, f.hints, f.facts
FROM followed AS f
INNER JOIN (SELECT trace_id, span_id, root FROM work_nodes WHERE root != toFixedString('', 8) AND outer = 0) AS n
    ON n.trace_id = f.trace_id AND n.span_id = f.mark
LEFT ANY JOIN (SELECT trace_id, span_id, attempt FROM work_calls) AS c ON c.trace_id = f.trace_id AND c.span_id = f.mark
WHERE multiIf(
    f.principal = 'platform',
    (f.trace_id, n.root) NOT IN (SELECT trace_id, span_id FROM work_nodes WHERE role = 'request' AND principal != 'platform'),
    (f.trace_id, n.root, f.principal) IN (SELECT trace_id, span_id, principal FROM work_nodes WHERE principal != 'platform')
        OR (f.trace_id, n.root, f.principal) IN (SELECT trace_id, span_id, viewer FROM work_links WHERE pass = 'claim')
)
