-- Idle money: time that scheduling could have filled. On a replica that a tenant reserved, the idle time by which the tenant stayed below its
-- reservation is the tenant's (idle_reserved). Times of GPUs are taken as times of the replica: reserved GPUs / GPUs of it.
INSERT INTO work_ledger
WITH
reserved AS (
    SELECT
        toDateTime(intDiv(window_ns, 1000000000), 'UTC') AS window_from,
        replica,
        reserved_tenant AS tenant,
        argMin(model, from_ns) AS its_model,
        sum(intDiv(
            toInt128(reserved_gpus) * (least(to_ns, window_ns + {window_ns:Int64}, {until_ns:Int64}) - greatest(from_ns, window_ns)), gpus
        )) AS reserved_ns
    FROM inventory
    ARRAY JOIN range({from_ns:Int64}, {to_ns:Int64}, {window_ns:Int64}) AS window_ns
    WHERE config_hash = {config_hash:String} AND reserved_tenant != '' AND reserved_gpus > 0
        AND from_ns < least(window_ns + {window_ns:Int64}, {until_ns:Int64}) AND to_ns > window_ns
    GROUP BY window_ns, replica, tenant
),
used AS (
    SELECT window_from, resource, tenant, toInt128(sum(busy_ns)) AS used_ns
    FROM work_ledger
    WHERE pool = 'gpu' AND (window_from, resource, tenant) IN (SELECT window_from, replica, tenant FROM reserved)
    GROUP BY window_from, resource, tenant
),
missed AS (
    SELECT r.window_from AS window_from, r.replica AS resource, r.tenant AS tenant, r.its_model AS model, greatest(r.reserved_ns - u.used_ns, 0) AS short_ns
    FROM reserved AS r
    LEFT JOIN used AS u ON r.window_from = u.window_from AND r.replica = u.resource AND r.tenant = u.tenant
),
stood AS (
    SELECT window_from, toString(pool) AS pool, resource, toInt128(sum(idle_ns)) AS idle_ns, toInt256(sum(idle_atoms)) AS pot
    FROM work_pools
    GROUP BY window_from, pool, resource
    HAVING pot != 0
),
weighed AS (
    SELECT
        s.window_from AS window_from, s.pool AS pool, s.resource AS resource, s.idle_ns AS idle_ns, s.pot AS pot,
        arraySort(arrayFilter(m -> m.3 > 0, groupArray((toString(m.tenant), toString(m.model), m.short_ns)))) AS short,
        arrayConcat([('', '', greatest(idle_ns - arraySum(short.3), 0))], short) AS claims,
        if(pool = 'gpu' AND idle_ns > 0 AND notEmpty(short), claims, [('', '', toInt128(1))]) AS shares,
        toInt256(arraySum(shares.3)) AS whole
    FROM stood AS s
    LEFT JOIN missed AS m ON s.window_from = m.window_from AND s.resource = m.resource
    GROUP BY s.window_from, s.pool, s.resource, s.idle_ns, s.pot
),
floored AS (
    SELECT
        *,
        arrayMap(s -> intDiv(pot * s.3, whole), shares) AS wholes,
        arrayMap((s, x) -> pot * s.3 - x * whole, shares, wholes) AS remainders,
        pot - arraySum(wholes) AS missing
    FROM weighed
)
SELECT
    window_from, {run_id:UInt64}, pool, resource, shares[n].1 AS its_tenant, shares[n].2, if(its_tenant = '', 'idle', 'idle_reserved'), 'schedule',
    if(its_tenant = '', 'platform', 'tenant'), 'none', '', '', 0,
    toInt128(wholes[n] + if(
        arrayCount((r, i) -> r > remainders[n] OR (r = remainders[n] AND i < n), remainders, arrayEnumerate(remainders)) < missing, 1, 0
    )) AS money
FROM floored
ARRAY JOIN arrayEnumerate(shares) AS n
WHERE money != 0
