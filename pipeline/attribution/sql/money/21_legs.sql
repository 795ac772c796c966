-- Where and when each attempt held a GPU: its legs, or [first scheduled, last token] on its one replica, cut at segment borders.
-- An attempt that shows no sign of having run (still queued when it failed) held none. One that ended before its first token was
-- prefilling until then. Each leg divides into prefill [leg_from, prefill_to) and decode [prefill_to, leg_to). The first token comes out
-- of the prefill, so n tokens take n - 1 decode steps. Cached tokens are not prefilled. Token counts above 2^24 are taken as 2^24:
-- no model has such a context, and the arithmetic stays inside Int128. The rough weight is tier C's (DESIGN 4.3), times 100,000.
INSERT INTO work_legs
WITH covers AS (
    SELECT
        replica,
        arraySort(s -> s.1, groupArray((
            segment_from, segment_to, flops_per_second, bytes_per_second, prefill_budget_tokens, flop_per_token, weight_bytes, kv_bytes_per_token,
            constants_known, attention_flop_per_token
        ))) AS segments
    FROM work_segments
    GROUP BY replica
),
facts AS (
    SELECT
        attempt_id,
        arrayMap(l -> (toString(l.replica), toString(l.phase), toUnixTimestamp64Nano(l.first_at), toUnixTimestamp64Nano(l.last_at)), legs) AS own_legs,
        if(replica = '', own_legs[1].1, toString(replica)) AS only_replica,
        toUnixTimestamp64Nano(first_scheduled_at) AS scheduled_ns,
        coalesce(toUnixTimestamp64Nano(first_token_at), -1) AS first_token_ns,
        toUnixTimestamp64Nano(last_token_at) AS last_token_ns,
        toUnixTimestamp64Nano(started_at) AS started_ns,
        toUnixTimestamp64Nano(ended_at) AS ended_ns,
        toInt64(least(coalesce(input_tokens, 0), 16777216)) AS context_tokens,
        toInt64(least(coalesce(input_cache_read_tokens, 0), 16777216)) AS cached_tokens,
        toInt64(least(coalesce(generated_tokens, output_tokens, 0), 16777216)) AS produced_tokens
    FROM work_attempts
),
runs_of AS (
    SELECT
        attempt_id, own_legs, only_replica, first_token_ns, context_tokens, produced_tokens,
        greatest(context_tokens - cached_tokens, 0) AS prefill_tokens,
        isNotNull(scheduled_ns) OR notEmpty(own_legs) AS start_known,
        start_known OR first_token_ns >= 0 OR isNotNull(last_token_ns) OR produced_tokens > 0 AS ran,
        coalesce(scheduled_ns, if(empty(own_legs), NULL, own_legs[1].3), started_ns) AS run_from,
        coalesce(last_token_ns, if(empty(own_legs), NULL, own_legs[1].4), ended_ns, nullIf(first_token_ns, -1), run_from) AS run_to
    FROM facts
),
spelled AS (
    SELECT
        attempt_id, first_token_ns, context_tokens, produced_tokens, prefill_tokens, start_known,
        length(own_legs) > 1 AS several,
        arraySort(
            l -> (l.3, l.4, l.1, l.2),
            multiIf(length(own_legs) > 1, own_legs, ran, [(only_replica, '', run_from, run_to)], [])
        ) AS spells
    FROM runs_of
),
cut AS (
    SELECT
        *,
        arrayMap(l -> least(greatest(l.3, l.4), l.3 + {max_attempt_ns:Int64}), spells) AS ends,
        arrayMap((l, e) -> multiIf(
            l.2 = 'decode', l.3,
            l.2 = 'prefill' OR first_token_ns < 0, e,
            least(greatest(first_token_ns, l.3), e)
        ), spells, ends) AS cuts
    FROM spelled
),
measured AS (
    SELECT
        *,
        greatest(produced_tokens - 1, 0) AS decode_tokens,
        arrayMap((l, c) -> c - l.3, spells, cuts) AS prefills,
        arrayMap((e, c) -> e - c, ends, cuts) AS decodes,
        greatest(arrayFirstIndex(l -> l.2 != 'decode', spells), 1) AS home_no,
        (several AND arrayAll(l -> l.2 IN ('prefill', 'decode'), spells))
            OR (start_known AND (first_token_ns >= 0 OR produced_tokens = 0)) AS phases_known,
        21000 * toInt128(prefill_tokens) + 10080 * toInt128(produced_tokens) + 399 * toInt128(prefill_tokens) * produced_tokens
            + 325 * toInt128(produced_tokens) * produced_tokens + 114600 AS rough_weight
    FROM cut
),
placed AS (
    SELECT
        attempt_id, leg_no, replica, leg_from, prefill_to, leg_to, prefill_home,
        arraySum(arraySlice(prefills, 1, leg_no - 1)) AS prefill_before,
        arraySum(prefills) AS prefill_total,
        arraySum(arraySlice(decodes, 1, leg_no - 1)) AS decode_before,
        arraySum(decodes) AS decode_total,
        context_tokens, prefill_tokens, decode_tokens, rough_weight, phases_known,
        greatest(leg_from, {from_ns:Int64}) AS inside_from,
        least(leg_to, {until_ns:Int64}) AS inside_to
    FROM (
        SELECT
            *,
            leg_no,
            spells[leg_no].1 AS replica,
            spells[leg_no].3 AS leg_from,
            cuts[leg_no] AS prefill_to,
            ends[leg_no] AS leg_to,
            leg_no = home_no AS prefill_home
        FROM measured
        ARRAY JOIN arrayEnumerate(spells) AS leg_no
    )
    WHERE replica != '' AND leg_from < {until_ns:Int64} AND (leg_to > {from_ns:Int64} OR (leg_from = leg_to AND leg_from >= {from_ns:Int64}))
),
pieces AS (
    SELECT
        p.*,
        c.segments AS segments,
        arraySort(arrayDistinct(arrayConcat(
            [inside_from, inside_to],
            arrayFilter(t -> t > inside_from AND t < inside_to, arrayConcat(arrayMap(s -> s.1, segments), arrayMap(s -> s.2, segments)))
        ))) AS borders
    FROM placed AS p
    LEFT JOIN covers AS c ON p.replica = c.replica
)
SELECT
    row_number() OVER (ORDER BY attempt_id, leg_no, piece_from) AS piece_no,
    replica,
    if(held, segment.1, toInt64(-9223372036854775808)) AS segment_from,
    held AS listed,
    attempt_id,
    leg_no,
    piece_from AS live_from,
    piece_to AS live_to,
    leg_from,
    prefill_to,
    leg_to,
    prefill_home,
    prefill_before,
    prefill_total,
    decode_before,
    decode_total,
    context_tokens,
    prefill_tokens,
    decode_tokens,
    rough_weight,
    held AND phases_known AND segment.9 AS roofline,
    segment.3 AS flops_per_second,
    segment.4 AS bytes_per_second,
    segment.5 AS prefill_budget_tokens,
    segment.6 AS flop_per_token,
    segment.10 AS attention_flop_per_token,
    segment.7 AS weight_bytes,
    segment.8 AS kv_bytes_per_token
FROM (
    SELECT
        *,
        borders[n] AS piece_from,
        borders[least(n + 1, length(borders))] AS piece_to,
        arrayFirst(s -> s.1 <= borders[n] AND s.2 > borders[n], segments) AS segment,
        arrayExists(s -> s.1 <= borders[n] AND s.2 > borders[n], segments) AS held
    FROM pieces
    ARRAY JOIN range(1, greatest(length(borders), 2)) AS n
)
