-- The busy money of power follows the GPU time of its replica, also that which is nobody's. Largest remainder, ties by (attempt, tier).
INSERT INTO work_shares (window_from, pool, resource, attempt_id, tier, busy_ns, atoms)
WITH
pots AS (
    SELECT window_from, resource, toInt256(sum(busy_atoms)) AS pot
    FROM work_pools
    WHERE pool = 'power'
    GROUP BY window_from, resource
    HAVING pot > 0
),
weighed AS (
    SELECT
        s.window_from AS window_from, s.resource AS resource, s.attempt_id AS attempt_id, toString(s.tier) AS tier, p.pot AS pot,
        toInt256(s.busy_ns) AS weight,
        sum(toInt256(s.busy_ns)) OVER (PARTITION BY s.window_from, s.resource) AS whole,
        intDiv(pot * weight, whole) AS low,
        pot * weight - low * whole AS rest
    FROM work_shares AS s
    INNER JOIN pots AS p ON s.window_from = p.window_from AND s.resource = p.resource
    WHERE s.pool = 'gpu' AND s.busy_ns > 0
),
parts AS (
    SELECT
        window_from, resource, attempt_id, tier,
        low + if(
            row_number() OVER (PARTITION BY window_from, resource ORDER BY rest DESC, attempt_id, tier)
            <= pot - sum(low) OVER (PARTITION BY window_from, resource), 1, 0
        ) AS part
    FROM weighed
)
SELECT window_from, 'power', resource, attempt_id, tier, 0, toInt128(part)
FROM parts
WHERE part != 0
