-- Per segment and slot: how long somebody was live, what that time costs, and the two kinds of steps of tier B.
-- Money of [a, b) inside a segment is A(b) - A(a) with A(t) = floor(rate x (t - start)): the slots of any stretch add up to it exactly.
-- Tier B needs constants and phase times of every attempt in the slot, and numbers within Int128: absurd token counts fall to tier C.
INSERT INTO work_slots
WITH cells AS (
    SELECT
        replica,
        segment_from,
        slot,
        any(listed) AS listed,
        any(slot_ns) AS slot_ns,
        intervalLengthSum(slot_live_from, slot_live_to) AS busy_ns,
        min(roofline) AS roofline,
        sum(toInt128(live_ns)) AS live_ns,
        greatest(toInt128(1), max(slot_decode_tokens)) AS steps,
        least(steps, intDiv(sum(slot_prefill_tokens) + any(prefill_budget_tokens) - 1, greatest(any(prefill_budget_tokens), 1))) AS mixed_steps,
        any(weights_ps) AS weights_ps,
        sum(prefill_ps) AS prefill_ps_sum,
        sum(decode_ps) AS decode_ps_sum,
        sum(kv_ps) AS kv_ps_sum
    FROM work_leg_slots
    WHERE replica IN {replicas:Array(String)} AND slot >= intDiv({chunk_from_ns:Int64}, {slot_ns:Int64}) AND slot < intDiv({chunk_to_ns:Int64}, {slot_ns:Int64})
    GROUP BY replica, segment_from, slot
),
split AS (
    SELECT
        *,
        prefill_ps_sum + intDiv(decode_ps_sum * mixed_steps, steps) AS mixed_compute_ps,
        intDiv(kv_ps_sum * mixed_steps, steps) AS mixed_kv_ps,
        weights_ps * mixed_steps AS mixed_weights_ps,
        intDiv(decode_ps_sum * (steps - mixed_steps), steps) AS decode_compute_ps,
        intDiv(kv_ps_sum * (steps - mixed_steps), steps) AS decode_kv_ps,
        weights_ps * (steps - mixed_steps) AS decode_weights_ps,
        toFloat64(greatest(mixed_compute_ps, mixed_kv_ps + mixed_weights_ps, decode_compute_ps, decode_kv_ps + decode_weights_ps)) AS largest_ps,
        throwIf(
            (toFloat64(decode_ps_sum) + toFloat64(kv_ps_sum)) * toFloat64(steps) > exp2(126),
            'picoseconds of a slot pass 2^126: check flops_per_second, bytes_per_second and the model constants of its replica'
        ) AS out_of_range
    FROM cells
),
priced AS (
    SELECT
        x.*,
        if(x.listed = 1, toUInt64(least((x.slot + 1) * x.slot_ns, g.segment_to) - greatest(x.slot * x.slot_ns, x.segment_from)), x.busy_ns) AS capacity_ns,
        if(
            x.listed = 1,
            intDiv(g.atoms_per_hour * (least((x.slot + 1) * x.slot_ns, g.segment_to) - x.segment_from), 3600000000000)
            - intDiv(g.atoms_per_hour * (greatest(x.slot * x.slot_ns, x.segment_from) - x.segment_from), 3600000000000),
            toInt128(0)
        ) AS atoms,
        if(capacity_ns = 0, toInt128(0), intDiv(atoms * x.busy_ns, greatest(capacity_ns, 1))) AS busy_atoms
    FROM split AS x
    LEFT JOIN work_segments AS g ON x.replica = g.replica AND x.segment_from = g.segment_from
)
SELECT
    toDateTime(intDiv(slot * slot_ns, {window_ns:Int64}) * intDiv({window_ns:Int64}, 1000000000), 'UTC') AS window_from,
    replica,
    segment_from,
    listed,
    slot,
    capacity_ns,
    busy_ns,
    busy_atoms,
    if(roofline = 1 AND largest_ps * largest_ps < exp2(124) AND largest_ps * 4 * greatest(toFloat64(busy_atoms), toFloat64(busy_ns)) < exp2(125), 'B', 'C') AS tier,
    live_ns,
    steps,
    mixed_steps,
    mixed_compute_ps,
    mixed_kv_ps,
    mixed_weights_ps,
    decode_compute_ps,
    decode_kv_ps,
    decode_weights_ps
FROM priced
WHERE out_of_range = 0
