-- Per source the requests in whose traces it has a span. `engine`: an attempt names the replica that it ran on. A flag counts once a request.
SELECT
    service, sender AS principal,
    count() AS requests, sum(model) AS model, sum(usage) AS usage, sum(tenant) AS tenant, sum(engine) AS engine,
    sumMap(flagged, arrayMap(f -> toUInt64(1), flagged)) AS flags
FROM (
    SELECT
        s.service AS service, s.sender AS sender, request_id,
        max(has_model) AS model, max(has_usage) AS usage, max(has_tenant) AS tenant, max(has_engine) AS engine,
        arrayMap(x -> toString(x), groupUniqArrayArray(f.flags)) AS flagged
    FROM (
        SELECT
            request_id, trace_id, toUInt8(model != 'unknown') AS has_model, toUInt8(usage_state != 'unknown') AS has_usage,
            toUInt8(tenant_source != 'unknown') AS has_tenant, toUInt8(0) AS has_engine, flags
        FROM requests
        WHERE (window_from, run_id) IN (SELECT window_from, run_id FROM current_runs WHERE window_from < {to:DateTime('UTC')} AND window_to > {from:DateTime('UTC')})
        UNION ALL
        SELECT
            request_id, toFixedString(unhex(substring(request_id, 1, 32)), 16), 0, 0, 0, toUInt8(replica != ''), flags
        FROM attempts
        WHERE (window_from, run_id) IN (SELECT window_from, run_id FROM current_runs WHERE window_from < {to:DateTime('UTC')} AND window_to > {from:DateTime('UTC')})
    ) AS f
    INNER JOIN (
        SELECT DISTINCT trace_id, resource['service.name'] AS service, toString(principal) AS sender
        FROM spans
        WHERE start_hour >= toStartOfHour({from:DateTime('UTC')}) AND start_hour < {to:DateTime('UTC')}
            AND started_at >= {from:DateTime('UTC')} AND started_at < {to:DateTime('UTC')}
            AND (cityHash64(_part) % 1000003 + intDiv(_part_offset, 8192)) % {one_in:UInt64} = 0
    ) AS s ON s.trace_id = f.trace_id
    GROUP BY service, sender, request_id
)
GROUP BY service, principal
ORDER BY requests DESC, service, principal
LIMIT {sources_max:UInt64}
