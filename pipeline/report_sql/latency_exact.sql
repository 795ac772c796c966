-- Nearest rank over the requests themselves, for ranges of several windows: quantiles cannot be added.
SELECT
    key, measure,
    length(sorted_ns) AS n,
    sorted_ns[intDiv(500 * length(sorted_ns) + 999, 1000)] AS p50,
    sorted_ns[intDiv(950 * length(sorted_ns) + 999, 1000)] AS p95,
    sorted_ns[intDiv(990 * length(sorted_ns) + 999, 1000)] AS p99,
    sorted_ns[intDiv(999 * length(sorted_ns) + 999, 1000)] AS p99_9,
    'exact' AS kind,
    quality
FROM (
    SELECT
        key, measure, arraySort(groupArray(assumeNotNull(value_ns))) AS sorted_ns, arraySort(groupUniqArrayIf(how, how != '')) AS quality
    FROM (
        SELECT
            multiIf({by:String} = 'tenant', toString(r.tenant), {by:String} = 'model', toString(r.model), {by:String} = 'hour',
                formatDateTime(toStartOfHour(r.window_from), '%Y-%m-%dT%H:%i:%SZ'), '') AS key,
            measure, value_ns, how
        FROM requests AS r
        ARRAY JOIN
            arrayConcat(['ttft', 'tpot', 'e2e', 'queue'], arrayMap(k -> concat('stage:', k), mapKeys(r.stage_ns))) AS measure,
            arrayConcat([r.ttft_ns, r.tpot_ns, r.e2e_ns, r.queue_ns], mapValues(r.stage_ns)) AS value_ns,
            arrayConcat(
                arrayMap(k -> toString(r.stage_quality[k]), ['ttft', 'tpot', 'e2e', 'queue']),
                arrayMap(k -> toString(r.stage_quality[k]), mapKeys(r.stage_ns))
            ) AS how
        WHERE r.window_from >= {from:DateTime('UTC')} AND r.window_from < {to:DateTime('UTC')}
            AND ({tenant:String} = '' OR r.tenant = {tenant:String}) AND ({model:String} = '' OR r.model = {model:String})
            AND (r.window_from, r.run_id) IN (
                SELECT window_from, argMax(run_id, (recorded_at, run_id)) FROM runs
                WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')} GROUP BY window_from)
            AND r.outcome != 'rejected' AND isNotNull(value_ns)
    )
    GROUP BY key, measure
)
