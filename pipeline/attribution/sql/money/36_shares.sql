-- Divides the money of gateways, links and KV storage by its weights: largest remainder, ties by attempt. Nobody has a weight: attempt ''.
INSERT INTO work_shares (window_from, pool, resource, attempt_id, tier, busy_ns, atoms)
WITH
pots AS (
    SELECT window_from, toString(pool) AS pool, resource, price_id, toInt256(sum(busy_atoms)) AS pot
    FROM work_pools
    WHERE pool IN ('network', 'kv_storage', 'gateway')
    GROUP BY window_from, pool, resource, price_id
    HAVING pot > 0
),
weighed AS (
    SELECT
        p.window_from AS window_from, p.pool AS pool, p.resource AS resource, p.price_id AS price_id, w.attempt_id AS attempt_id, p.pot AS pot,
        toInt256(w.weight) AS weight,
        sum(toInt256(w.weight)) OVER (PARTITION BY p.window_from, p.pool, p.resource, p.price_id) AS whole,
        intDiv(pot * weight, greatest(whole, toInt256(1))) AS low,
        pot * weight - low * whole AS rest
    FROM pots AS p
    LEFT JOIN work_weights AS w
        ON p.window_from = w.window_from AND p.pool = w.pool AND p.resource = w.resource AND p.price_id = w.price_id
),
parts AS (
    SELECT
        window_from, pool, resource, attempt_id,
        if(
            whole = 0,
            pot,
            low + if(
                row_number() OVER (PARTITION BY window_from, pool, resource, price_id ORDER BY rest DESC, attempt_id)
                <= pot - sum(low) OVER (PARTITION BY window_from, pool, resource, price_id), 1, 0
            )
        ) AS part
    FROM weighed
)
SELECT window_from, pool, resource, attempt_id, 'none', 0, toInt128(sum(part)) AS money
FROM parts
GROUP BY window_from, pool, resource, attempt_id
HAVING money != 0
