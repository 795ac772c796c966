-- What spans tell besides their interval, by field: requests, inference spans and hints, and stage spans that tell anything.
INSERT INTO work_facts
WITH {field_names:Array(String)} AS field_names
SELECT
    trace_id,
    span_id,
    parent_span_id,
    principal,
    started_ns,
    ended_ns,
    role,
    transform(rule, {rules:Array(UInt32)}, {rule_layers:Array(Int8)}, toInt8(0)),
    stage,
    failed,
    transform(rule, {rules:Array(UInt32)}, {rule_proofs:Array(UInt8)}, toUInt8(0)),
    transform(rule, {rules:Array(UInt32)}, {rule_excludes:Array(UInt8)}, toUInt8(0)),
    sampled,
    skewed,
    sibling,
    resource_key,
    mapFromArrays(
        arrayMap(slot -> transform(bitShiftRight(slot, 6), arrayEnumerate(field_names), field_names, ''), field_slots),
        arrayFilter((value, slot, before) -> bitShiftRight(slot, 6) != bitShiftRight(before, 6), values, sorted_slots, before_slots)
    ),
    arrayMap(
        x -> (
            transform(bitShiftLeft(toUInt64(rule), 32) + x.1, {slot_keys:Array(UInt64)}, {slot_attributes:Array(String)}, ''),
            transform(bitShiftRight(x.1, 6), arrayEnumerate(field_names), field_names, ''),
            toUInt64OrZero(x.2)
        ),
        arrayFilter(x -> has({token_fields:Array(UInt32)}, bitShiftRight(x.1, 6)), if(role = 'inference', arrayZip(sorted_slots, values), []))
    )
FROM (
    SELECT
        *,
        -- By field and place; of a field the first place that has a value counts.
        arrayFilter((slot, value) -> value != '', all_slots, read_values) AS value_slots,
        arraySort(value_slots) AS sorted_slots,
        arraySort((value, slot) -> slot, arrayFilter(value -> value != '', read_values), value_slots) AS values,
        arrayPopBack(arrayPushFront(sorted_slots, 0)) AS before_slots,
        arrayFilter((slot, before) -> bitShiftRight(slot, 6) != bitShiftRight(before, 6), sorted_slots, before_slots) AS field_slots
    FROM (
        SELECT
            * EXCEPT (said),
            -- Whole numbers as decimal text, booleans as 0 and 1, missing values as ''.
            arrayMap(
                (slot, text) -> multiIf(
                    (transform(bitShiftLeft(toUInt64(rule), 16) + bitShiftRight(slot, 6), {factor_keys:Array(UInt64)}, {factors:Array(Float64)}, 0.) AS factor) = 0,
                    if(text = 'null' OR (startsWith(text, '-') AND (text = '-' OR toFloat64OrZero(text) < 0)), '', text),
                    factor < 0,
                    multiIf(text IN ('true', 'True', '1'), '1', text IN ('false', 'False', '0'), '0', ''),
                    -- More than 2^40 tokens is no count of one call; a few of them would wrap the sums of a window.
                    has({token_fields:Array(UInt32)}, bitShiftRight(slot, 6)) AND toFloat64OrZero(text) * factor > 1099511627776,
                    '',
                    factor = 1 AND toUInt64OrNull(text) IS NOT NULL,
                    text,
                    ifNull((toFloat64OrNull(text) * factor AS told) >= 0 AND told < 9e18, 0),
                    toString(toUInt64(round(assumeNotNull(told)))),
                    ''
                ),
                all_slots,
                said
            ) AS read_values
        FROM (
            SELECT
                *,
                -- An attribute may serve several fields of its rule; an absent flag may have a meaning.
                arrayMap(
                    slot -> transform(bitShiftLeft(toUInt64(rule), 32) + slot, {next_keys:Array(UInt64)}, {next_slots:Array(UInt32)}, toUInt32(0)), slots
                ) AS second_slots,
                arrayMap(
                    slot -> transform(bitShiftLeft(toUInt64(rule), 32) + slot, {next_keys:Array(UInt64)}, {next_slots:Array(UInt32)}, toUInt32(0)), second_slots
                ) AS third_slots,
                range(transform(rule, {literal_rules:Array(UInt32)}, {literal_counts:Array(UInt8)}, toUInt8(0))) AS literals,
                arrayConcat(
                    slots,
                    arrayFilter(slot -> slot > 0, second_slots),
                    arrayFilter(slot -> slot > 0, third_slots),
                    arrayMap(n -> transform(bitShiftLeft(toUInt64(rule), 8) + n + 1, {literal_keys:Array(UInt64)}, {literal_slots:Array(UInt32)}, toUInt32(0)), literals)
                ) AS all_slots,
                arrayConcat(
                    texts,
                    arrayFilter((text, slot) -> slot > 0, texts, second_slots),
                    arrayFilter((text, slot) -> slot > 0, texts, third_slots),
                    arrayMap(n -> transform(bitShiftLeft(toUInt64(rule), 8) + n + 1, {literal_keys:Array(UInt64)}, {literal_values:Array(String)}, ''), literals)
                ) AS said
            FROM work_spans
            WHERE cityHash64(trace_id) % {chunks:UInt32} = {chunk:UInt32}
                AND (role IN ('request', 'inference', 'attempt_hint') OR stage = {stream:UInt8} OR notEmpty(slots))
        )
    )
)
