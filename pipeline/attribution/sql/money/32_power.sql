-- What the energy of each replica cost. Energy of a window: as counted, where counters cover at least half of the held time and every GPU
-- (each scaled to the held time), else watts x time. It is spread evenly over the held time of the window, so a tariff pays its part of it.
-- Money goes to busy and idle time by watts x time, by time alone where watts are unknown. Neither counters nor watts: no price. In nJ.
INSERT INTO work_pools
WITH
held AS (
    SELECT
        toDateTime(intDiv(window_ns, 1000000000), 'UTC') AS window_from,
        s.replica AS replica,
        s.segment_from AS segment_from,
        greatest(s.segment_from, window_ns) AS held_from,
        least(s.segment_to, window_ns + {window_ns:Int64}) AS held_to
    FROM work_segments AS s
    ARRAY JOIN range({from_ns:Int64}, {to_ns:Int64}, {window_ns:Int64}) AS window_ns
    WHERE s.segment_from < window_ns + {window_ns:Int64} AND s.segment_to > window_ns
),
machines AS (
    SELECT
        h.window_from AS window_from, h.replica AS replica, h.segment_from AS segment_from, h.held_from AS held_from, h.held_to AS held_to,
        i.gpu AS gpu, i.gpus AS gpus, i.watts_busy AS watts_busy, i.watts_idle AS watts_idle
    FROM held AS h
    INNER JOIN (
        SELECT replica, from_ns, to_ns, gpu, gpus, watts_busy, watts_idle FROM inventory WHERE config_hash = {config_hash:String}
    ) AS i ON h.replica = i.replica
    WHERE i.from_ns <= h.segment_from AND i.to_ns > h.segment_from
),
busy AS (
    SELECT window_from, replica, segment_from, toInt256(sum(busy_ns)) AS busy_ns
    FROM work_slots
    WHERE listed = 1
    GROUP BY window_from, replica, segment_from
),
counted AS (
    SELECT
        window_from, replica,
        groupArray((toInt256(round(value * 1e9)), toInt256(covered_ns))) AS meters,
        if(has(groupArray(device), ''), toUInt64(65535), uniqExact(host, device)) AS devices
    FROM work_measures
    WHERE quantity = 'gpu_energy_joules' AND replica != '' AND covered_ns > 0 AND isFinite(value) AND value >= 0 AND value < 1e18
        AND window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC') AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
    GROUP BY window_from, replica
),
consumed AS (
    SELECT
        m.window_from AS window_from,
        m.replica AS replica,
        sum(toInt256(m.held_to - m.held_from)) AS held_ns,
        sum(b.busy_ns) AS busy_ns,
        min(m.watts_busy > 0 AND m.watts_idle > 0) AS watts_known,
        if(watts_known, sum(toInt256(m.watts_busy) * b.busy_ns), busy_ns) AS busy_weight,
        if(watts_known, sum(toInt256(m.watts_idle) * (m.held_to - m.held_from - b.busy_ns)), held_ns - busy_ns) AS idle_weight,
        any(c.meters) AS meters,
        notEmpty(meters) AND any(c.devices) >= max(m.gpus) AND arrayAll(x -> 2 * x.2 >= held_ns, meters) AS counted_all,
        counted_all OR watts_known AS known,
        if(
            counted_all,
            arraySum(x -> intDiv(x.1 * held_ns, greatest(x.2, toInt256(1))), meters),
            if(watts_known, busy_weight + idle_weight, toInt256(0))
        ) AS nanojoules
    FROM machines AS m
    LEFT JOIN busy AS b ON m.window_from = b.window_from AND m.replica = b.replica AND m.segment_from = b.segment_from
    LEFT JOIN counted AS c ON m.window_from = c.window_from AND m.replica = c.replica
    GROUP BY m.window_from, m.replica
),
charged AS (
    SELECT
        m.window_from AS window_from, m.replica AS replica, t.price_id AS price_id, any(t.currency) AS currency, any(toInt256(t.atoms)) AS rate,
        sum(toInt256(least(m.held_to, t.to_ns) - greatest(m.held_from, t.from_ns))) AS ns
    FROM machines AS m
    CROSS JOIN work_tariffs AS t
    WHERE least(m.held_to, t.to_ns) > greatest(m.held_from, t.from_ns)
        AND (empty(t.replicas) OR has(t.replicas, m.replica)) AND (empty(t.gpus) OR has(t.gpus, m.gpu))
    GROUP BY m.window_from, m.replica, t.price_id
),
spent AS (
    SELECT
        c.window_from AS window_from, c.replica AS replica, c.price_id AS price_id, c.currency AS currency, e.known AS known,
        throwIf(
            toFloat64(c.rate) * toFloat64(e.nanojoules) * toFloat64(c.ns) / toFloat64(e.held_ns) / 3.6e15 > exp2(68),
            'the energy of a replica costs more than 2^68 atoms a window: check usd_per_kwh, pue and the watts of its inventory row'
        ) AS out_of_range,
        if(out_of_range = 0, intDiv(c.rate * e.nanojoules * c.ns, e.held_ns * 3600000000000000), toInt256(0)) AS cost,
        greatest(e.busy_weight + e.idle_weight, toInt256(1)) AS whole,
        intDiv(cost * e.busy_weight, whole) AS busy_low,
        intDiv(cost * e.idle_weight, whole) AS idle_low,
        busy_low + if(busy_low + idle_low < cost AND cost * e.busy_weight - busy_low * whole >= cost * e.idle_weight - idle_low * whole, 1, 0) AS busy_cost
    FROM charged AS c
    INNER JOIN consumed AS e ON c.window_from = e.window_from AND c.replica = e.replica
)
SELECT window_from, {run_id:UInt64}, 'power', replica, currency, price_id, known, 0, 0, 0, 0, toInt128(cost), toInt128(busy_cost), 0, toInt128(cost - busy_cost)
FROM spent
