-- Nearest rank over the requests themselves, for ranges of several windows: quantiles cannot be added.
WITH measured AS (
    SELECT
        multiIf({by:String} = 'tenant', toString(r.tenant), {by:String} = 'model', toString(r.model), {by:String} = 'hour',
            formatDateTime(toStartOfHour(r.window_from), '%Y-%m-%dT%H:%i:%SZ'), '') AS key,
        groupArrayMap(CAST(r.stage_ns, 'Map(String, UInt64)')) AS staged,
        groupUniqArrayMap(CAST(r.stage_quality, 'Map(String, String)')) AS qualities,
        arrayConcat(['ttft', 'tpot', 'e2e', 'queue'], mapKeys(staged)) AS names,
        arrayConcat([groupArray(r.ttft_ns), groupArray(r.tpot_ns), groupArray(r.e2e_ns), groupArray(r.queue_ns)], mapValues(staged)) AS durations
    FROM requests AS r
    WHERE r.window_from >= {from:DateTime('UTC')} AND r.window_from < {to:DateTime('UTC')}
        AND ({tenant:String} = '' OR r.tenant = {tenant:String}) AND ({model:String} = '' OR r.model = {model:String})
        AND (r.window_from, r.run_id) IN (
            SELECT window_from, argMax(run_id, (recorded_at, run_id)) FROM runs
            WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')} GROUP BY window_from)
        AND r.outcome != 'rejected'
    GROUP BY key
)
SELECT
    key,
    if(place <= 4, name, concat('stage:', name)) AS measure,
    length(sorted_ns) AS n,
    sorted_ns[intDiv(500 * length(sorted_ns) + 999, 1000)] AS p50,
    sorted_ns[intDiv(950 * length(sorted_ns) + 999, 1000)] AS p95,
    sorted_ns[intDiv(990 * length(sorted_ns) + 999, 1000)] AS p99,
    sorted_ns[intDiv(999 * length(sorted_ns) + 999, 1000)] AS p99_9,
    'exact' AS kind,
    arraySort(arrayFilter(q -> q != '', qualities[name])) AS quality
FROM (
    SELECT key, qualities, name, place, arraySort(values_ns) AS sorted_ns
    FROM measured
    ARRAY JOIN names AS name, arrayEnumerate(names) AS place, durations AS values_ns
    WHERE notEmpty(values_ns)
)
