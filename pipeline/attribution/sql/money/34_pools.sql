-- What gateways, links, KV storage and overhead cost per window. Money of [a, b) is A(b) - A(a), A(t) = floor(rate x (t - start) / period):
-- windows add up exactly; the clock of a monthly price starts with each month of UTC. A price per GiB costs what the told bytes cost; where
-- nobody tells bytes it has no price (priced = 0): its cost is unknown. Overhead is nobody's. The limit keeps 25 inside Int128.
INSERT INTO work_pools
WITH
bytes AS (
    SELECT window_from, resource, price_id, sum(toInt256(weight)) AS moved
    FROM work_weights
    WHERE pool = 'network'
    GROUP BY window_from, resource, price_id
),
held AS (
    SELECT
        toDateTime(intDiv(window_ns, 1000000000), 'UTC') AS window_from,
        toString(pool) AS pool, resource, price_id, currency, basis, toInt256(atoms) AS rate,
        toDateTime(toStartOfMonth(window_from), 'UTC') AS month_from,
        toInt64(toUnixTimestamp(month_from)) * 1000000000 AS month_ns,
        toInt64(toUnixTimestamp(addMonths(month_from, 1))) * 1000000000 AS next_month_ns,
        if(basis = 'month', greatest(from_ns, month_ns), from_ns) AS start_ns,
        if(basis = 'month', next_month_ns - month_ns, 3600000000000) AS period_ns,
        greatest(from_ns, window_ns) - start_ns AS a,
        least(to_ns, window_ns + {window_ns:Int64}, {until_ns:Int64}) - start_ns AS b
    FROM pool_prices
    ARRAY JOIN range({from_ns:Int64}, {to_ns:Int64}, {window_ns:Int64}) AS window_ns
    WHERE config_hash = {config_hash:String} AND pool IN ('network', 'kv_storage', 'gateway', 'overhead') AND a < b
),
spent AS (
    SELECT
        h.window_from AS window_from, h.pool AS pool, h.resource AS resource, h.currency AS currency, h.price_id AS price_id,
        h.basis != 'gib' OR y.moved > 0 AS priced,
        if(h.basis = 'gib', intDiv(h.rate * y.moved, 1073741824), intDiv(h.rate * h.b, h.period_ns) - intDiv(h.rate * h.a, h.period_ns)) AS cost,
        throwIf(
            if(h.basis = 'gib', toFloat64(h.rate) * toFloat64(y.moved) / exp2(30), toFloat64(h.rate) * toFloat64(h.b - h.a) / h.period_ns) > exp2(68),
            'a pool costs more than 2^68 atoms a window: check its amounts in prices.toml'
        ) AS out_of_range
    FROM held AS h
    LEFT JOIN bytes AS y ON h.pool = 'network' AND h.window_from = y.window_from AND h.resource = y.resource AND h.price_id = y.price_id
)
SELECT
    window_from, {run_id:UInt64}, pool, resource, currency, price_id, priced, 0, 0, 0, 0,
    toInt128(cost) AS money, if(pool = 'overhead', toInt128(0), money), if(pool = 'overhead', money, toInt128(0)), toInt128(0)
FROM spent
WHERE out_of_range = 0
