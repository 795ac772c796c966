-- Per window: increase of counters, integral of rates, mean and peak of gauges. All sums are of integers (millionths of the unit), so
-- that equal input gives equal rows in any order; what is divided over time is divided so that the parts add up to the whole.
INSERT INTO work_measures (window_from, run_id, quantity, unit, service, host, replica, device, model, value, peak, covered_ns, source)
WITH
    told AS (
        SELECT
            s.stream AS stream,
            s.metric AS metric,
            s.series_id AS series_id,
            s.rank AS rank,
            s.kind AS kind,
            toUnixTimestamp64Nano(p.at) AS at_ns,
            toUnixTimestamp64Nano(p.start_at) AS start_ns,
            toString(p.kind) LIKE '%delta' AS is_delta,
            multiIf(
                s.reads = 'sum', p.sum,
                s.reads = 'count', toFloat64(p.count),
                coalesce(p.value, toFloat64(p.value_int))
            ) * s.micro_per_unit AS float_micro,
            isFinite(ifNull(float_micro, nan)) AND abs(ifNull(float_micro, 0)) < 1e24 AS is_told,
            if(is_told, toInt128(round(if(is_told, ifNull(float_micro, 0), 0))), NULL) AS micro
        FROM samples AS p FINAL
        INNER JOIN work_series AS s ON s.metric = p.metric AND s.series_id = p.series_id
        WHERE p.metric IN (SELECT metric FROM work_series WHERE quantity IN {quantities:Array(String)})
            AND p.at >= fromUnixTimestamp64Nano({read_from_ns:Int64}, 'UTC') AND p.at < fromUnixTimestamp64Nano({read_to_ns:Int64}, 'UTC')
            AND p.principal = 'platform' AND s.quantity IN {quantities:Array(String)}
    ),
    points AS (
        -- One point per stream and moment, whichever of its series told it. A point without a value ends a gauge, and is nothing to a counter.
        SELECT
            p.stream AS stream,
            p.at_ns AS at_ns,
            argMin((p.metric, p.series_id, p.rank), p.series_id) AS series,
            any(p.kind) AS kind,
            max(p.is_delta) AS is_delta,
            max(p.start_ns) AS start_ns,
            max(p.micro) AS micro
        FROM told AS p
        WHERE p.kind != 'counter' OR p.micro IS NOT NULL
        GROUP BY p.stream, p.at_ns
    ),
    neighbours AS (
        SELECT
            *,
            lagInFrame(at_ns) OVER one AS before_ns,
            lagInFrame(micro) OVER one AS micro_before,
            leadInFrame(at_ns) OVER one AS after_ns
        FROM points
        WINDOW one AS (PARTITION BY stream ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    ),
    stretches AS (
        -- [begin_ns, end_ns): a counter's increase in it, or a gauge's value during it.
        SELECT
            stream,
            series,
            kind,
            before_ns > 0 AND at_ns - before_ns <= {stale_ns:Int64} AS follows,
            start_ns > 0 AND start_ns < at_ns AND start_ns > before_ns AS starts_anew,
            multiIf(
                kind != 'counter', at_ns,
                is_delta, greatest(multiIf(start_ns > 0 AND start_ns <= at_ns, start_ns, follows, before_ns, at_ns), at_ns - {stale_ns:Int64}),
                starts_anew, start_ns,
                before_ns
            ) AS begin_ns,
            multiIf(
                kind = 'counter', at_ns,
                after_ns > 0, least(after_ns, at_ns + {stale_ns:Int64}, {until_ns:Int64}),
                least(at_ns + {stale_ns:Int64}, {until_ns:Int64})
            ) AS end_ns,
            multiIf(
                kind != 'counter' OR is_delta OR starts_anew, micro,
                micro < micro_before, micro,
                micro - micro_before
            ) AS amount
        FROM neighbours
        WHERE micro IS NOT NULL AND (
            kind != 'counter' OR (micro >= 0 AND (is_delta OR follows OR (starts_anew AND at_ns - start_ns <= {stale_ns:Int64})))
        )
    ),
    parts AS (
        SELECT
            stream,
            series,
            w * {window_ns:Int64} AS window_ns,
            kind,
            greatest(begin_ns, window_ns) AS low_ns,
            least(end_ns, window_ns + {window_ns:Int64}) AS high_ns,
            assumeNotNull(amount) AS whole,
            multiIf(
                kind != 'counter', whole * (high_ns - low_ns),
                begin_ns = end_ns, whole,
                intDiv(whole * (high_ns - begin_ns), end_ns - begin_ns) - intDiv(whole * (low_ns - begin_ns), end_ns - begin_ns)
            ) AS portion
        FROM stretches
        ARRAY JOIN range(
            greatest(intDiv(begin_ns, {window_ns:Int64}), intDiv({from_ns:Int64}, {window_ns:Int64})),
            least(intDiv(greatest(end_ns - 1, begin_ns), {window_ns:Int64}) + 1, intDiv({to_ns:Int64}, {window_ns:Int64}))
        ) AS w
        WHERE begin_ns < end_ns OR kind = 'counter'
    ),
    streams AS (
        SELECT
            stream,
            series,
            window_ns,
            sum(portion) AS total,
            max(whole) AS largest,
            groupArray((low_ns, high_ns)) AS covers
        FROM parts
        GROUP BY stream, series, window_ns
    ),
    placed AS (
        SELECT
            t.window_ns AS window_ns, t.stream AS stream, t.total AS total, t.largest AS largest, t.covers AS covers,
            s.metric AS metric, s.rank AS rank, s.thing AS thing, s.place AS place, s.quantity AS quantity, s.unit AS unit,
            s.kind AS kind, s.combine AS combine, s.service AS service, s.host AS host, s.device AS device, s.model AS model,
            arrayFirst(fit -> fit.3 < t.window_ns + {window_ns:Int64} AND fit.4 > t.window_ns, s.fits).2 AS listed,
            if(listed != '', listed, s.own_name) AS replica
        FROM streams AS t
        INNER JOIN work_series AS s ON s.metric = t.series.1 AND s.series_id = t.series.2 AND s.rank = t.series.3
    ),
    believed AS (
        -- Of the rules for one place the first that has data; of the streams that repeat one figure the largest.
        SELECT *, first_value(stream) OVER (PARTITION BY thing, window_ns ORDER BY stream_total DESC, stream) AS best_stream
        FROM (
            SELECT
                *,
                min(rank) OVER (PARTITION BY place, window_ns) AS best_rank,
                sum(total) OVER (PARTITION BY stream, window_ns) AS stream_total
            FROM placed
        )
        WHERE rank = best_rank
    ),
    summed AS (
        SELECT
            window_ns, quantity, service, host, replica, device, model,
            any(unit) AS unit,
            any(kind) AS kind,
            any(combine) AS combine,
            sum(total) AS amount,
            max(largest) AS largest,
            arraySort(arrayFlatten(groupArray(covers))) AS covers,
            arraySort(groupUniqArray(toString(metric))) AS metrics
        FROM believed
        WHERE stream = best_stream
        GROUP BY window_ns, quantity, service, host, replica, device, model
    ),
    covered AS (
        SELECT
            *,
            arrayFold(
                (done, cover) -> (done.1 + greatest(toInt64(0), cover.2 - greatest(cover.1, done.2)), greatest(done.2, cover.2)),
                covers,
                (toInt64(0), toInt64(0))
            ).1 AS covered_ns,
            arraySum(cover -> cover.2 - cover.1, covers) AS series_ns
        FROM summed
    )
SELECT
    toDateTime(intDiv(window_ns, 1000000000), 'UTC') AS window_from,
    {run_id:UInt64} AS run_id,
    quantity,
    unit,
    service,
    host,
    replica,
    device,
    model,
    toFloat64(amount) / multiIf(
        kind = 'counter', 1e6,
        kind = 'rate', 1e15,
        combine = 'mean', 1e6 * toFloat64(series_ns),
        1e6 * toFloat64(covered_ns)
    ) AS value,
    if(kind = 'gauge', toFloat64(largest) / 1e6, NULL) AS peak,
    toUInt64(covered_ns) AS covered_ns,
    arrayStringConcat(metrics, ', ') AS source
FROM covered
