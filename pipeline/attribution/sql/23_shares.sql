-- Splits the busy atoms and ns of each slot among the attempts live in it.
-- Weight, tier B: per kind of step with compute a, cache reads k and weight reads w (ps of the slot), t = 1 if a <= k + w else w/(a - k):
--   share of w by live time + t x own cache reads + (1 - t) x own compute; the shares of the two kinds add (DESIGN 4.3).
-- Weight, tier C: the attempt's rough weight by live time.
-- Atoms go by largest remainder, ties by attempt, leg and time; ns by running totals in the same order. Nobody with weight: attempt ''.
INSERT INTO work_shares
WITH weighed AS (
    SELECT
        c.window_from AS window_from,
        s.replica AS replica,
        s.segment_from AS segment_from,
        s.slot AS slot,
        s.attempt_id AS attempt_id,
        s.leg_no AS leg_no,
        s.slot_live_from AS slot_live_from,
        c.tier AS tier,
        c.busy_atoms AS pool_atoms,
        toInt128(c.busy_ns) AS pool_ns,
        intDiv(s.decode_ps * c.mixed_steps, c.steps) AS mixed_decode_ps,
        intDiv(s.kv_ps * c.mixed_steps, c.steps) AS mixed_kv_ps,
        intDiv(s.decode_ps * (c.steps - c.mixed_steps), c.steps) AS rest_decode_ps,
        intDiv(s.kv_ps * (c.steps - c.mixed_steps), c.steps) AS rest_kv_ps,
        if(
            c.tier = 'C',
            s.slot_rough_weight,
            intDiv((c.mixed_weights_ps + c.decode_weights_ps) * s.live_ns, greatest(c.live_ns, 1))
            + if(
                c.mixed_compute_ps <= c.mixed_kv_ps + c.mixed_weights_ps,
                mixed_kv_ps,
                intDiv(
                    c.mixed_weights_ps * mixed_kv_ps
                    + (c.mixed_compute_ps - c.mixed_kv_ps - c.mixed_weights_ps) * (s.prefill_ps + mixed_decode_ps),
                    greatest(c.mixed_compute_ps - c.mixed_kv_ps, 1)
                )
            )
            + if(
                c.decode_compute_ps <= c.decode_kv_ps + c.decode_weights_ps,
                rest_kv_ps,
                intDiv(
                    c.decode_weights_ps * rest_kv_ps + (c.decode_compute_ps - c.decode_kv_ps - c.decode_weights_ps) * rest_decode_ps,
                    greatest(c.decode_compute_ps - c.decode_kv_ps, 1)
                )
            )
        ) AS weight
    FROM work_leg_slots AS s
    INNER JOIN work_slots AS c ON s.replica = c.replica AND s.segment_from = c.segment_from AND s.slot = c.slot
    WHERE
        s.replica IN {replicas:Array(String)}
        AND s.slot >= intDiv({chunk_from_ns:Int64}, {slot_ns:Int64}) AND s.slot < intDiv({chunk_to_ns:Int64}, {slot_ns:Int64})
        AND c.replica IN {replicas:Array(String)}
        AND c.slot >= intDiv({chunk_from_ns:Int64}, {slot_ns:Int64}) AND c.slot < intDiv({chunk_to_ns:Int64}, {slot_ns:Int64})
),
floored AS (
    SELECT
        *,
        sum(weight) OVER (PARTITION BY replica, segment_from, slot) AS total,
        throwIf(
            greatest(toFloat64(pool_atoms), toFloat64(pool_ns)) * toFloat64(total) > exp2(126),
            'atoms times weights of a slot pass 2^126: check the GPU price and the model constants of its replica'
        ) AS out_of_range,
        if(total = 0, toInt128(0), intDiv(pool_atoms * weight, greatest(total, 1))) AS whole,
        pool_atoms * weight - whole * total AS remainder
    FROM weighed
),
ranked AS (
    SELECT
        *,
        pool_atoms - sum(whole) OVER (PARTITION BY replica, segment_from, slot) AS missing,
        row_number() OVER in_order AS place,
        sum(weight) OVER in_order AS weight_so_far
    FROM floored
    WHERE out_of_range = 0
    WINDOW in_order AS (
        PARTITION BY replica, segment_from, slot ORDER BY remainder DESC, attempt_id, leg_no, slot_live_from
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)
SELECT
    window_from,
    replica,
    if(total = 0, '', r.attempt_id) AS attempt_id,
    if(total = 0, 'none', toString(r.tier)) AS tier,
    sum(toUInt64(if(
        total = 0,
        if(place = 1, pool_ns, toInt128(0)),
        intDiv(pool_ns * weight_so_far, greatest(total, 1)) - intDiv(pool_ns * (weight_so_far - weight), greatest(total, 1))
    ))) AS busy_ns,
    sum(if(total = 0, if(place = 1, pool_atoms, toInt128(0)), whole + if(place <= missing, 1, 0))) AS atoms
FROM ranked AS r
GROUP BY window_from, replica, attempt_id, tier
