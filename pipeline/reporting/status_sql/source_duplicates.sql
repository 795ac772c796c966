-- Spans that look like another one under a new id: same trace, parent, name, times and attributes. Without ids a resend is a new trace.
-- Only spans that last: of two moments alike nobody can say that they are one.
SELECT service, sender AS principal, sum(copies) AS spans
FROM (
    SELECT resource['service.name'] AS service, toString(principal) AS sender, uniqExact(trace_id, span_id) - 1 AS copies
    FROM spans
    WHERE start_hour >= toStartOfHour({from:DateTime('UTC')}) AND start_hour < {to:DateTime('UTC')}
        AND started_at >= {from:DateTime('UTC')} AND started_at < {to:DateTime('UTC')}
        AND (cityHash64(_part) % 1000003 + intDiv(_part_offset, 8192)) % {one_in:UInt64} = 0
        AND duration_ns > 0
    GROUP BY
        service, sender,
        cityHash64(
            if(has(defects, 'derived_id'), '', toString(trace_id)), parent_span_id, scope_name, name, started_at, duration_ns,
            mapKeys(attributes), mapValues(attributes)
        )
    HAVING copies > 0
)
GROUP BY service, principal
ORDER BY spans DESC, service, principal
LIMIT {sources_max:UInt64}
