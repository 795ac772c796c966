-- Per segment and slot: how long somebody was live, what that time costs, and the weight of each attempt in it.
--
-- Money of [a, b) inside a segment is A(b) - A(a) with A(t) = floor(rate x (t - start)): the slots of any stretch add up to it exactly.
-- Prefill tokens are spread evenly over the prefill. Decode tokens (in thousandths) of a window are spread over its slots by what the
-- prefills of everybody leave of each: while others prefill, an answer hardly moves.
--
-- Weight, tier B (DESIGN 4.3), in picoseconds: the slot has `steps` decode steps, `mixed` of them carry all prefill and their part of decode,
-- the others the rest of decode. Per kind, with compute a, cache reads k and weight reads w, t = 1 if a <= k + w else w / (a - k):
--   share of w by live time + t x own cache reads + (1 - t) x own compute; the shares of the two kinds add.
-- It needs constants and phase times of every attempt in the slot, and numbers within Int128: absurd token counts fall to tier C.
-- Weight, tier C: the attempt's rough weight, by live time.
INSERT INTO work_slots
WITH
    intDiv({chunk_from_ns:Int64}, {slot_ns:Int64}) AS first_slot,
    intDiv({chunk_to_ns:Int64}, {slot_ns:Int64}) AS end_slot,
-- Slots in which an attempt prefills: whole tokens, and their compute with attention to what was cached and to what was prefilled before.
prefilling AS (
    SELECT
        piece_no,
        replica,
        segment_from,
        roofline,
        slot,
        if(
            prefill_total = 0,
            toInt128(0),
            intDiv(toInt128(prefill_tokens) * (prefill_before + least(greatest(live_from, slot * {slot_ns:Int64}), prefill_to) - leg_from), greatest(prefill_total, 1))
        ) AS done_before,
        if(
            prefill_total = 0,
            toInt128(prefill_tokens),
            intDiv(toInt128(prefill_tokens) * (prefill_before + least(live_to, (slot + 1) * {slot_ns:Int64}, prefill_to) - leg_from), greatest(prefill_total, 1))
        ) AS done_after,
        done_after - done_before AS tokens,
        intDiv(
            (
                toInt128(flop_per_token) * tokens
                + intDiv(toInt128(attention_flop_per_token) * tokens * (2 * (context_tokens - prefill_tokens) + done_before + done_after), 2)
            ) * 1000000,
            greatest(intDiv(flops_per_second, 1000000), 1)
        ) AS ps
    FROM work_legs
    ARRAY JOIN range(intDiv(live_from, {slot_ns:Int64}), intDiv(greatest(least(prefill_to, live_to) - 1, live_from), {slot_ns:Int64}) + 1) AS slot
    WHERE replica IN {replicas:Array(String)} AND slot >= first_slot AND slot < end_slot
        AND if(prefill_total = 0, prefill_home = 1 AND live_from = leg_from, live_from < prefill_to)
),
-- Millionths of a slot that prefills take from decode, at most 31/32; `through`: those of its window so far.
taken AS (
    SELECT
        replica,
        segment_from,
        slot,
        intDiv(slot * {slot_ns:Int64}, {window_ns:Int64}) AS window,
        least(toInt128(968750), intDiv(1000 * sum(least(ps, toInt128({slot_ns:Int64}) * 1000)), {slot_ns:Int64})) AS part,
        sum(part) OVER (PARTITION BY replica, segment_from, window ORDER BY slot) AS through
    FROM prefilling
    WHERE roofline = 1
    GROUP BY replica, segment_from, slot
),
-- Each piece window by window: what of its decode lies there, from `decode_a` to `decode_b`, and what others' prefills leave of that.
windows AS (
    SELECT
        *,
        window,
        greatest(live_from, window * {window_ns:Int64}) AS window_a,
        least(live_to, (window + 1) * {window_ns:Int64}) AS window_b,
        greatest(window_a, prefill_to) AS decode_a,
        greatest(window_b, prefill_to) AS decode_b,
        intDiv(decode_a, {slot_ns:Int64}) AS slot_a,
        intDiv(greatest(decode_b - 1, decode_a), {slot_ns:Int64}) AS slot_b
    FROM work_legs
    ARRAY JOIN range(intDiv(live_from, {window_ns:Int64}), intDiv(greatest(live_to - 1, live_from), {window_ns:Int64}) + 1) AS window
    WHERE replica IN {replicas:Array(String)}
        AND window >= intDiv({chunk_from_ns:Int64}, {window_ns:Int64}) AND window < intDiv({chunk_to_ns:Int64}, {window_ns:Int64})
),
paced AS (
    SELECT
        w.*,
        if(slot_before = w.slot_a, part_before, toInt128(0)) AS part_a,
        if(slot_within = w.slot_b, part_within, toInt128(0)) AS part_b,
        1000000 * toInt128(w.decode_b - w.decode_a) - if(
            w.slot_a = w.slot_b,
            part_a * (w.decode_b - w.decode_a),
            part_a * ((w.slot_a + 1) * {slot_ns:Int64} - w.decode_a)
            + (through_within - part_b - through_before) * {slot_ns:Int64}
            + part_b * (w.decode_b - w.slot_b * {slot_ns:Int64})
        ) AS window_progress,
        intDiv(1000 * toInt128(w.decode_tokens) * (w.decode_before + w.decode_b - w.prefill_to), greatest(w.decode_total, 1))
        - intDiv(1000 * toInt128(w.decode_tokens) * (w.decode_before + w.decode_a - w.prefill_to), greatest(w.decode_total, 1)) AS window_decoded
    FROM windows AS w
    ASOF LEFT JOIN (
        SELECT replica AS x_replica, segment_from AS x_segment, window AS x_window, slot AS slot_before, part AS part_before, through AS through_before
        FROM taken
    ) AS x ON x_replica = w.replica AND x_segment = w.segment_from AND x_window = w.window AND slot_before <= w.slot_a
    ASOF LEFT JOIN (
        SELECT replica AS y_replica, segment_from AS y_segment, window AS y_window, slot AS slot_within, part AS part_within, through AS through_within
        FROM taken
    ) AS y ON y_replica = w.replica AND y_segment = w.segment_from AND y_window = w.window AND slot_within <= w.slot_b
),
lived AS (
    SELECT
        *,
        slot,
        greatest(window_a, slot * {slot_ns:Int64}) AS a,
        least(window_b, (slot + 1) * {slot_ns:Int64}) AS b
    FROM paced
    ARRAY JOIN range(intDiv(window_a, {slot_ns:Int64}), intDiv(greatest(window_b - 1, window_a), {slot_ns:Int64}) + 1) AS slot
),
worked AS (
    SELECT
        l.*,
        prefilled,
        prefill_ps,
        greatest(intDiv(l.bytes_per_second, 1000000), 1) AS mega_bytes_per_second,
        greatest(intDiv(l.flops_per_second, 1000000), 1) AS mega_flops_per_second,
        intDiv(
            l.window_decoded * (1000000 - taken_part) * (greatest(l.b, l.prefill_to) - greatest(l.a, l.prefill_to)), greatest(l.window_progress, 1)
        ) AS decoded,
        l.context_tokens
        + intDiv(toInt128(l.decode_tokens) * (l.decode_before + greatest(l.b, l.prefill_to) - l.prefill_to), greatest(l.decode_total, 1)) AS context_at_b,
        if(
            l.prefill_total + l.decode_total = 0,
            l.rough_weight,
            intDiv(l.rough_weight * (l.prefill_before + l.decode_before + l.b - l.leg_from), greatest(l.prefill_total + l.decode_total, 1))
            - intDiv(l.rough_weight * (l.prefill_before + l.decode_before + l.a - l.leg_from), greatest(l.prefill_total + l.decode_total, 1))
        ) AS rough
    FROM lived AS l
    LEFT ANY JOIN (
        SELECT replica AS t_replica, segment_from AS t_segment, slot AS t_slot, part AS taken_part FROM taken
    ) AS t ON t_replica = l.replica AND t_segment = l.segment_from AND t_slot = l.slot
    LEFT ANY JOIN (
        SELECT piece_no AS p_piece, slot AS p_slot, tokens AS prefilled, ps AS prefill_ps FROM prefilling
    ) AS p ON p_piece = l.piece_no AND p_slot = l.slot
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
        greatest(toInt128(1000), max(decoded)) AS steps,
        least(steps, 1000 * intDiv(sum(prefilled) + any(prefill_budget_tokens) - 1, greatest(any(prefill_budget_tokens), 1))) AS mixed,
        intDiv(toInt128(any(weight_bytes)) * 1000000, any(mega_bytes_per_second)) AS weights_ps,
        -- Numbers only, and each by itself: an array of tuples takes four times as long.
        groupArray(piece_no) AS pieces,
        groupArray(prefill_ps) AS prefills_ps,
        groupArray(intDiv((flop_per_token + toInt128(attention_flop_per_token) * context_at_b) * decoded * 1000, mega_flops_per_second)) AS decodes_ps,
        groupArray(intDiv(toInt128(kv_bytes_per_token) * decoded * context_at_b * 1000, mega_bytes_per_second)) AS caches_ps,
        groupArray(b - a) AS lives_ns,
        groupArray(rough) AS roughs,
        arrayReduce('sum', prefills_ps) AS all_prefill_ps,
        arrayReduce('sum', decodes_ps) AS decode_ps,
        arrayReduce('sum', caches_ps) AS cache_ps
    FROM worked
    GROUP BY replica, segment_from, slot
),
kinds AS (
    SELECT
        *,
        all_prefill_ps + intDiv(decode_ps * mixed, steps) AS mixed_a,
        intDiv(cache_ps * mixed, steps) AS mixed_k,
        intDiv(weights_ps * mixed, 1000) AS mixed_w,
        intDiv(decode_ps * (steps - mixed), steps) AS rest_a,
        intDiv(cache_ps * (steps - mixed), steps) AS rest_k,
        intDiv(weights_ps * (steps - mixed), 1000) AS rest_w,
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
