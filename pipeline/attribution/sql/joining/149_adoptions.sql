-- Whom each orphan belongs to, by the most literal form of its id that anybody holds. It joins only if that is one request; there the one
-- call around it, else the request itself. What holds the id in its own tree is joined by parent ids already.
INSERT INTO work_adoptions (trace_id, span_id, round, layer, state, to_trace, to_span)
WITH judged AS (
    SELECT
        m.trace_id AS trace_id,
        m.span_id AS span_id,
        any(m.layer) AS layer,
        max(t.at = m.span_id AND m.to_trace = m.trace_id) AS own,
        min(m.form) AS literal,
        any(m.layer) = 'client' OR uniqExact((m.to_trace, m.to_span)) > 1 AS by_request,
        groupArray((m.form, m.to_trace, m.to_span, r.at, m.to_request, m.around, m.crowded)) AS everybody,
        arrayFilter(x -> x.1 = literal, everybody) AS holders,
        arrayDistinct(arrayMap(x -> (x.2, if(by_request AND x.4 != toFixedString('', 8), x.4, x.3)), holders)) AS requests,
        arrayDistinct(arrayMap(x -> x.3, arrayFilter(x -> x.5 = 0 AND x.6 = 1, holders))) AS calls,
        own = 0 AND length(requests) = 1 AND NOT has(holders.7, 1) AS clear,
        if(any(m.layer) != 'client' AND length(calls) = 1, calls[1], requests[1].2) AS target
    FROM work_matches AS m
    LEFT ANY JOIN (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'tree' AND state = 'found') AS t
        ON t.trace_id = m.to_trace AND t.span_id = m.to_span
    LEFT ANY JOIN (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'holder' AND state = 'found') AS r
        ON r.trace_id = m.to_trace AND r.span_id = m.to_span
    GROUP BY m.trace_id, m.span_id
)
SELECT
    trace_id,
    span_id,
    {round:UInt8},
    layer,
    -- A request can hang under one client's view only.
    multiIf(own, 'below', clear AND (layer != 'client' OR count() OVER (PARTITION BY layer, clear, requests[1].1, target) = 1), 'joined', 'ambiguous'),
    if(clear, requests[1].1, toFixedString('', 16)),
    if(clear, target, toFixedString('', 8))
FROM judged
