-- Exact nearest rank ceil(q n) per window, by index into the sorted array; the sketch serves longer ranges.
-- Rejected requests never reached an engine: their quick answers would flatter every quantile.
INSERT INTO latency_windows (window_from, run_id, tenant, model, measure, n, p50_ns, p95_ns, p99_ns, p999_ns, sum_ns, quality, sketch)
SELECT
    window_from, {run_id:UInt64}, tenant, model, measure,
    length(sorted_ns),
    sorted_ns[intDiv(500 * length(sorted_ns) + 999, 1000)],
    sorted_ns[intDiv(950 * length(sorted_ns) + 999, 1000)],
    sorted_ns[intDiv(990 * length(sorted_ns) + 999, 1000)],
    sorted_ns[intDiv(999 * length(sorted_ns) + 999, 1000)],
    total_ns, qualities, sketched
FROM (
    SELECT
        window_from, tenant, model, measure,
        arraySort(groupArray(assumeNotNull(value_ns))) AS sorted_ns,
        sum(assumeNotNull(value_ns)) AS total_ns,
        arraySort(groupUniqArrayIf(quality, quality != '')) AS qualities,
        quantilesDDState(0.005, 0.5, 0.95, 0.99, 0.999)(assumeNotNull(value_ns)) AS sketched
    FROM (
        SELECT
            r.window_from AS window_from, r.tenant AS tenant, r.model AS model, measure, value_ns, quality
        FROM requests AS r
        ARRAY JOIN
            arrayConcat(['ttft', 'tpot', 'e2e', 'queue'], arrayMap(k -> concat('stage:', k), mapKeys(r.stage_ns))) AS measure,
            arrayConcat([r.ttft_ns, r.tpot_ns, r.e2e_ns, r.queue_ns], mapValues(r.stage_ns)) AS value_ns,
            arrayConcat(
                arrayMap(k -> toString(r.stage_quality[k]), ['ttft', 'tpot', 'e2e', 'queue']),
                arrayMap(k -> toString(r.stage_quality[k]), mapKeys(r.stage_ns))
            ) AS quality
        WHERE r.run_id = {run_id:UInt64}
            AND r.window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC')
            AND r.window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
            AND r.outcome != 'rejected' AND isNotNull(value_ns)
    )
    GROUP BY window_from, tenant, model, measure
)
