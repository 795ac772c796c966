-- Per segment and slot: how long somebody was live, what that time costs, and the weight of each attempt in it.
--
-- Money of [a, b) inside a segment is A(b) - A(a) with A(t) = floor(rate x (t - start)): the slots of any stretch add up to it exactly.
-- Token positions are cumulative too, so the slots of a leg add up to its tokens.
--
-- Weight, tier B (DESIGN 4.3), in picoseconds: the slot has `steps` decode steps, `mixed` of them carry all prefill and their part of decode,
-- the others the rest of decode. Per kind, with compute a, cache reads k and weight reads w, t = 1 if a <= k + w else w / (a - k):
--   share of w by live time + t x own cache reads + (1 - t) x own compute; the shares of the two kinds add.
-- It needs constants and phase times of every attempt in the slot, and numbers within Int128: absurd token counts fall to tier C.
-- Weight, tier C: the attempt's rough weight, by live time.
INSERT INTO work_slots
WITH lived AS (
    SELECT
        *,
        slot,
        greatest(live_from, slot * {slot_ns:Int64}) AS a,
        least(live_to, (slot + 1) * {slot_ns:Int64}) AS b
    FROM work_legs
    ARRAY JOIN range(intDiv(live_from, {slot_ns:Int64}), intDiv(greatest(live_to - 1, live_from), {slot_ns:Int64}) + 1) AS slot
    WHERE replica IN {replicas:Array(String)} AND slot >= intDiv({chunk_from_ns:Int64}, {slot_ns:Int64}) AND slot < intDiv({chunk_to_ns:Int64}, {slot_ns:Int64})
),
worked AS (
    SELECT
        *,
        greatest(intDiv(flops_per_second, 1000000), 1) AS mega_flops_per_second,
        greatest(intDiv(bytes_per_second, 1000000), 1) AS mega_bytes_per_second,
        if(
            prefill_total = 0,
            if(prefill_home = 1 AND (leg_from = leg_to OR (leg_from >= a AND leg_from < b)), toInt128(prefill_tokens), toInt128(0)),
            intDiv(toInt128(prefill_tokens) * (prefill_before + least(b, prefill_to) - leg_from), greatest(prefill_total, 1))
            - intDiv(toInt128(prefill_tokens) * (prefill_before + least(a, prefill_to) - leg_from), greatest(prefill_total, 1))
        ) AS prefilled,
        intDiv(toInt128(decode_tokens) * (decode_before + greatest(b, prefill_to) - prefill_to), greatest(decode_total, 1)) AS decoded_until_b,
        decoded_until_b
        - intDiv(toInt128(decode_tokens) * (decode_before + greatest(a, prefill_to) - prefill_to), greatest(decode_total, 1)) AS decoded,
        if(
            prefill_total + decode_total = 0,
            rough_weight,
            intDiv(rough_weight * (prefill_before + decode_before + b - leg_from), greatest(prefill_total + decode_total, 1))
            - intDiv(rough_weight * (prefill_before + decode_before + a - leg_from), greatest(prefill_total + decode_total, 1))
        ) AS rough
    FROM lived
),
cells AS (
    SELECT
        replica,
        segment_from,
        slot,
        any(listed) AS listed,
        intervalLengthSum(a, b) AS busy_ns,
        min(roofline) AS roofline,
        sum(toInt128(b - a)) AS live_ns,
        greatest(toInt128(1), max(decoded)) AS steps,
        least(steps, intDiv(sum(prefilled) + any(prefill_budget_tokens) - 1, greatest(any(prefill_budget_tokens), 1))) AS mixed,
        intDiv(toInt128(any(weight_bytes)) * 1000000, any(mega_bytes_per_second)) AS weights_ps,
        -- Numbers only, and each by itself: an array of tuples takes four times as long.
        groupArray(piece_no) AS pieces,
        groupArray(intDiv(toInt128(flop_per_token) * prefilled * 1000000, mega_flops_per_second)) AS prefills_ps,
        groupArray(intDiv(toInt128(flop_per_token) * decoded * 1000000, mega_flops_per_second)) AS decodes_ps,
        groupArray(intDiv(toInt128(kv_bytes_per_token) * decoded * (context_tokens + decoded_until_b) * 1000000, mega_bytes_per_second)) AS caches_ps,
        groupArray(b - a) AS lives_ns,
        groupArray(rough) AS roughs,
        arrayReduce('sum', prefills_ps) AS prefill_ps,
        arrayReduce('sum', decodes_ps) AS decode_ps,
        arrayReduce('sum', caches_ps) AS cache_ps
    FROM worked
    GROUP BY replica, segment_from, slot
),
kinds AS (
    SELECT
        *,
        prefill_ps + intDiv(decode_ps * mixed, steps) AS mixed_a,
        intDiv(cache_ps * mixed, steps) AS mixed_k,
        weights_ps * mixed AS mixed_w,
        intDiv(decode_ps * (steps - mixed), steps) AS rest_a,
        intDiv(cache_ps * (steps - mixed), steps) AS rest_k,
        weights_ps * (steps - mixed) AS rest_w,
        throwIf(
            (toFloat64(decode_ps) + toFloat64(cache_ps)) * toFloat64(steps) > exp2(126),
            'picoseconds of a slot pass 2^126: check flops_per_second, bytes_per_second and the model constants of its replica'
        ) AS out_of_range
    FROM cells
),
priced AS (
    SELECT
        x.*,
        if(x.listed = 1, least((x.slot + 1) * {slot_ns:Int64}, g.segment_to), x.segment_from) AS ends,
        if(x.listed = 1, greatest(x.slot * {slot_ns:Int64}, x.segment_from), x.segment_from) AS begins,
        if(x.listed = 1, toUInt64(ends - begins), x.busy_ns) AS capacity_ns,
        intDiv(g.atoms_per_hour * (ends - x.segment_from), 3600000000000)
        - intDiv(g.atoms_per_hour * (begins - x.segment_from), 3600000000000) AS atoms,
        if(capacity_ns = 0, toInt128(0), intDiv(atoms * x.busy_ns, greatest(capacity_ns, 1))) AS busy_atoms,
        toFloat64(greatest(mixed_a, mixed_k + mixed_w, rest_a, rest_k + rest_w)) AS longest_ps
    FROM kinds AS x
    LEFT JOIN work_segments AS g ON x.replica = g.replica AND x.segment_from = g.segment_from
    WHERE x.out_of_range = 0
)
SELECT
    toDateTime(intDiv(slot * {slot_ns:Int64}, {window_ns:Int64}) * intDiv({window_ns:Int64}, 1000000000), 'UTC') AS window_from,
    replica,
    segment_from,
    listed,
    slot,
    capacity_ns,
    busy_ns,
    busy_atoms,
    if(
        roofline = 1 AND longest_ps * longest_ps < exp2(124) AND longest_ps * 4 * greatest(toFloat64(busy_atoms), toFloat64(busy_ns)) < exp2(125),
        'B', 'C'
    ) AS tier,
    pieces,
    if(
        tier = 'C',
        roughs,
        arrayMap(
            (p, d, k, ns) ->
                intDiv((mixed_w + rest_w) * ns, greatest(live_ns, 1))
                + if(
                    mixed_a <= mixed_k + mixed_w,
                    intDiv(k * mixed, steps),
                    intDiv(
                        mixed_w * intDiv(k * mixed, steps) + (mixed_a - mixed_k - mixed_w) * (p + intDiv(d * mixed, steps)),
                        greatest(mixed_a - mixed_k, 1)
                    )
                )
                + if(
                    rest_a <= rest_k + rest_w,
                    intDiv(k * (steps - mixed), steps),
                    intDiv(
                        rest_w * intDiv(k * (steps - mixed), steps) + (rest_a - rest_k - rest_w) * intDiv(d * (steps - mixed), steps),
                        greatest(rest_a - rest_k, 1)
                    )
                ),
            prefills_ps, decodes_ps, caches_ps, lives_ns
        )
    ) AS weights
FROM priced
SETTINGS merge_tree_min_rows_for_concurrent_read = 16384, merge_tree_min_bytes_for_concurrent_read = 1048576
