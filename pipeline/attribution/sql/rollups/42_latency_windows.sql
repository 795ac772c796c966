-- Exact nearest rank ceil(q n) per window, by index into the sorted array; the histogram serves longer ranges.
-- Rejected requests never reached an engine: their quick answers would flatter every quantile.
-- Aggregated as maps, one state per (window, tenant, model): unfolding every request into one row per measure first costs three times as much.
INSERT INTO latency_windows (window_from, run_id, tenant, model, measure, n, p50_ns, p95_ns, p99_ns, p999_ns, sum_ns, quality, buckets, counts)
WITH measured AS (
    SELECT
        r.window_from AS window_from, r.tenant AS tenant, r.model AS model,
        groupArrayMap(CAST(r.stage_ns, 'Map(String, UInt64)')) AS staged,
        groupUniqArrayMap(CAST(r.stage_quality, 'Map(String, String)')) AS qualities,
        arrayConcat(['ttft', 'tpot', 'e2e', 'queue'], mapKeys(staged)) AS names,
        arrayConcat([groupArray(r.ttft_ns), groupArray(r.tpot_ns), groupArray(r.e2e_ns), groupArray(r.queue_ns)], mapValues(staged)) AS durations
    FROM requests AS r
    WHERE r.run_id = {run_id:UInt64}
        AND r.window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC')
        AND r.window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
        AND r.outcome != 'rejected'
    GROUP BY r.window_from, r.tenant, r.model
)
SELECT
    window_from,
    {run_id:UInt64},
    tenant,
    model,
    if(place <= 4, name, concat('stage:', name)),
    length(sorted_ns),
    sorted_ns[intDiv(500 * length(sorted_ns) + 999, 1000)],
    sorted_ns[intDiv(950 * length(sorted_ns) + 999, 1000)],
    sorted_ns[intDiv(990 * length(sorted_ns) + 999, 1000)],
    sorted_ns[intDiv(999 * length(sorted_ns) + 999, 1000)],
    arraySum(sorted_ns),
    arraySort(arrayFilter(q -> q != '', qualities[name])),
    arrayCompact(bucket_of),
    arrayPopFront(arrayDifference(arrayPushFront(last_of_bucket, 0)))
FROM (
    SELECT
        window_from, tenant, model, qualities, name, place,
        arraySort(values_ns) AS sorted_ns,
        arrayMap(ns -> toUInt16(ceil(log(greatest(ns, 1)) / log(1.01))), sorted_ns) AS bucket_of,
        arrayFilter((place, bucket, next) -> bucket != next, arrayEnumerate(bucket_of), bucket_of,
            arrayPushBack(arrayPopFront(bucket_of), 65535)) AS last_of_bucket
    FROM measured
    ARRAY JOIN names AS name, arrayEnumerate(names) AS place, durations AS values_ns
    WHERE notEmpty(values_ns)
)
