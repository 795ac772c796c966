-- Splits the busy atoms and ns of each slot by its weights. Atoms go by largest remainder, ties by piece; ns by running totals in the same
-- order. A slot in which nobody has weight is nobody's: attempt ''.
INSERT INTO work_shares (window_from, resource, attempt_id, tier, busy_ns, atoms)
WITH weighed AS (
    SELECT
        window_from,
        replica,
        tier,
        pieces,
        weights,
        busy_atoms,
        toInt128(busy_ns) AS slot_ns,
        arrayReduce('sum', weights) AS total,
        throwIf(
            greatest(toFloat64(busy_atoms), toFloat64(busy_ns)) * toFloat64(total) > exp2(126),
            'atoms times weights of a slot pass 2^126: check the GPU price and the model constants of its replica'
        ) AS out_of_range
    FROM work_slots
    WHERE replica IN {replicas:Array(String)}
        AND slot >= intDiv({chunk_from_ns:Int64}, {slot_ns:Int64}) AND slot < intDiv({chunk_to_ns:Int64}, {slot_ns:Int64})
),
floored AS (
    SELECT *, arrayMap(w -> intDiv(busy_atoms * w, total), weights) AS wholes
    FROM weighed
    WHERE out_of_range = 0 AND total > 0
),
served AS (
    SELECT
        window_from,
        tier,
        slot_ns,
        total,
        busy_atoms - arrayReduce('sum', wholes) AS missing,
        arraySort(
            s -> (-s.4, s.1),
            arrayMap((p, w, x) -> (p, w, x, busy_atoms * w - x * total), pieces, weights, wholes)
        ) AS in_order,
        arrayCumSum(in_order.2) AS weight_so_far
    FROM floored
),
parts AS (
    SELECT
        window_from,
        tier,
        part.1 AS piece_no,
        intDiv(slot_ns * so_far, total) - intDiv(slot_ns * (so_far - part.2), total) AS ns,
        part.3 + if(place <= missing, 1, 0) AS money
    FROM served
    ARRAY JOIN in_order AS part, weight_so_far AS so_far, arrayEnumerate(in_order) AS place
)
SELECT p.window_from, l.replica AS replica, l.attempt_id AS attempt_id, toString(p.tier) AS tier, toUInt64(sum(p.ns)) AS busy_ns, sum(p.money) AS atoms
FROM parts AS p
INNER JOIN (SELECT piece_no, replica, attempt_id FROM work_legs WHERE replica IN {replicas:Array(String)}) AS l ON p.piece_no = l.piece_no
GROUP BY p.window_from, replica, attempt_id, tier
UNION ALL
SELECT window_from, replica, '', 'none', toUInt64(sum(slot_ns)), sum(busy_atoms)
FROM weighed
WHERE out_of_range = 0 AND total = 0
GROUP BY window_from, replica
SETTINGS merge_tree_min_rows_for_concurrent_read = 16384, merge_tree_min_bytes_for_concurrent_read = 1048576
