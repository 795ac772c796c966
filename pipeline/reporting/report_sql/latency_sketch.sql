-- For ranges whose requests are too many or gone: one window keeps its exact ranks, several are merged from histograms (0.5%).
SELECT
    key, measure, n,
    if(single, exact[1], toUInt64(floor(merged[1]))) AS p50,
    if(single, exact[2], toUInt64(floor(merged[2]))) AS p95,
    if(single, exact[3], toUInt64(floor(merged[3]))) AS p99,
    if(single, exact[4], toUInt64(floor(merged[4]))) AS p99_9,
    if(single, 'exact', 'sketch') AS kind,
    quality
FROM (
    SELECT
        multiIf({by:String} = 'tenant', toString(tenant), {by:String} = 'model', toString(model), {by:String} = 'hour',
            formatDateTime(toStartOfHour(window_from), '%Y-%m-%dT%H:%i:%SZ'), '') AS key,
        toString(l.measure) AS measure,
        sum(l.n) AS n,
        count() = 1 AS single,
        [any(l.p50_ns), any(l.p95_ns), any(l.p99_ns), any(l.p999_ns)] AS exact,
        arrayMap(bucket -> pow(1.01, bucket) * 2 / 2.01, quantilesExactWeightedArray(0.5, 0.95, 0.99, 0.999)(l.buckets, l.counts)) AS merged,
        arraySort(arrayDistinct(arrayFlatten(groupArray(arrayMap(x -> toString(x), l.quality))))) AS quality
    FROM latency_windows AS l
    WHERE l.window_from >= {from:DateTime('UTC')} AND l.window_from < {to:DateTime('UTC')}
        AND ({tenant:String} = '' OR l.tenant = {tenant:String}) AND ({model:String} = '' OR l.model = {model:String})
        AND (l.window_from, l.run_id) IN (
            SELECT window_from, argMax(run_id, (recorded_at, run_id)) FROM runs
            WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')} GROUP BY window_from)
    GROUP BY key, measure
)
