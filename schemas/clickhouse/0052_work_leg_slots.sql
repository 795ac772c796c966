-- Legs cut into slots: what each did there. Token positions are cumulative, so the slots of a leg add up to its tokens exactly.
-- Picoseconds of compute and of memory follow from the constants of the replica (DESIGN 4.3).
CREATE VIEW IF NOT EXISTS work_leg_slots AS
SELECT
    replica,
    segment_from,
    listed,
    attempt_id,
    leg_no,
    slot_ns,
    slot,
    roofline,
    prefill_budget_tokens,
    slot_live_from,
    slot_live_to,
    slot_live_to - slot_live_from AS live_ns,
    slot_prefill_tokens,
    slot_decode_tokens,
    intDiv(toInt128(flop_per_token) * slot_prefill_tokens * 1000000, mega_flops_per_second) AS prefill_ps,
    intDiv(toInt128(flop_per_token) * slot_decode_tokens * 1000000, mega_flops_per_second) AS decode_ps,
    intDiv(toInt128(kv_bytes_per_token) * slot_decode_tokens * (context_tokens + decoded_tokens) * 1000000, mega_bytes_per_second) AS kv_ps,
    intDiv(toInt128(weight_bytes) * 1000000, mega_bytes_per_second) AS weights_ps,
    slot_rough_weight
FROM (
    SELECT
        *,
        greatest(intDiv(flops_per_second, 1000000), 1) AS mega_flops_per_second,
        greatest(intDiv(bytes_per_second, 1000000), 1) AS mega_bytes_per_second,
        if(
            prefill_total = 0,
            if(
                prefill_home = 1 AND (leg_from = leg_to OR (leg_from >= slot_live_from AND leg_from < slot_live_to)),
                toInt128(prefill_tokens),
                toInt128(0)
            ),
            intDiv(toInt128(prefill_tokens) * (prefill_before + least(slot_live_to, prefill_to) - leg_from), greatest(prefill_total, 1))
            - intDiv(toInt128(prefill_tokens) * (prefill_before + least(slot_live_from, prefill_to) - leg_from), greatest(prefill_total, 1))
        ) AS slot_prefill_tokens,
        intDiv(toInt128(decode_tokens) * (decode_before + greatest(slot_live_to, prefill_to) - prefill_to), greatest(decode_total, 1)) AS decoded_tokens,
        decoded_tokens
        - intDiv(toInt128(decode_tokens) * (decode_before + greatest(slot_live_from, prefill_to) - prefill_to), greatest(decode_total, 1))
            AS slot_decode_tokens,
        if(
            prefill_total + decode_total = 0,
            rough_weight,
            intDiv(rough_weight * (prefill_before + decode_before + slot_live_to - leg_from), greatest(prefill_total + decode_total, 1))
            - intDiv(rough_weight * (prefill_before + decode_before + slot_live_from - leg_from), greatest(prefill_total + decode_total, 1))
        ) AS slot_rough_weight
    FROM (
        SELECT
            *,
            slot,
            greatest(live_from, slot * slot_ns) AS slot_live_from,
            least(live_to, (slot + 1) * slot_ns) AS slot_live_to
        FROM work_legs
        ARRAY JOIN range(intDiv(live_from, slot_ns), intDiv(greatest(live_to - 1, live_from), slot_ns) + 1) AS slot
    )
)
