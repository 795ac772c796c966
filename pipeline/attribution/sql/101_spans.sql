-- Reads the spans, once. Rules and fields are found with transform() over constant arrays: a join costs more than all the rest.
-- The arrays of profile rules come from pipeline/attribution/readings.py, which explains the numbers.
INSERT INTO work_spans
WITH
    -- (scope, name) -> pair -> (pair, conditions that hold) -> rule.
    (SELECT arraySort(groupUniqArray(scope_name)) FROM work_rules) AS scopes,
    (SELECT arraySort(groupUniqArray(name)) FROM work_rules) AS names,
    (
        SELECT groupArray((pair, relevant))
        FROM (SELECT DISTINCT bitShiftLeft(toUInt64(indexOf(scopes, scope_name)), 32) + transform(name, names, arrayEnumerate(names), 0) AS pair, relevant FROM work_rules)
    ) AS pairs,
    (
        SELECT groupArray((
            bitShiftLeft(toUInt64(transform(
                bitShiftLeft(toUInt64(indexOf(scopes, scope_name)), 32) + transform(name, names, arrayEnumerate(names), 0),
                pairs.1, arrayEnumerate(pairs.1), 0
            )), 32) + holding,
            toUInt32(rank + 1)
        ))
        FROM work_rules
    ) AS chosen,
    {field_names:Array(String)} AS field_names
SELECT
    trace_id,
    span_id,
    parent_span_id,
    principal,
    received_ns,
    started_ns,
    started_ns + duration_ns,
    role,
    layer,
    transform(rule, {rules:Array(UInt32)}, {rule_stages:Array(UInt8)}, toUInt8(0)),
    status_code = 'error',
    transform(rule, {rules:Array(UInt32)}, {rule_proofs:Array(UInt8)}, toUInt8(0)),
    transform(rule, {rules:Array(UInt32)}, {rule_excludes:Array(UInt8)}, toUInt8(0)),
    role IN (1, 2) AND trace_state != '' AND match(trace_state, '(^|,)\\s*ot=[^,]*\\bth:[0-9a-f]*[1-9a-f]'),
    has(defects, 'end_before_start'),
    if(sibling_key = '', '', attributes[sibling_key]),
    mapFromArrays(
        arrayMap(slot -> transform(bitShiftRight(slot, 6), arrayEnumerate(field_names), field_names, ''), field_slots),
        arrayFilter((value, slot, before) -> bitShiftRight(slot, 6) != bitShiftRight(before, 6), values, slots, before_slots)
    ),
    if(
        role = 2,
        arrayMap(
            x -> (
                transform(bitShiftLeft(toUInt64(rule), 32) + x.1, {slot_keys:Array(UInt64)}, {slot_attributes:Array(String)}, ''),
                transform(bitShiftRight(x.1, 6), arrayEnumerate(field_names), field_names, ''),
                toUInt64OrZero(x.2)
            ),
            arrayFilter(x -> has({token_fields:Array(UInt32)}, bitShiftRight(x.1, 6)), arrayZip(slots, values))
        ),
        []
    ),
    if(layer = 4, cityHash64(principal, resource), 0),
    if(layer = 4, resource, map())
FROM (
    SELECT
        * EXCEPT (read_slots, read_values),
        transform(rule, {rules:Array(UInt32)}, {rule_roles:Array(Int8)}, toInt8(0)) AS role,
        transform(rule, {rules:Array(UInt32)}, {rule_layers:Array(Int8)}, toInt8(0)) AS layer,
        transform(rule, {sibling_rules:Array(UInt32)}, {sibling_keys:Array(String)}, '') AS sibling_key,
        -- By field and place; of a field the first place that has a value counts.
        arraySort(arrayFilter((slot, value) -> value != '', read_slots, read_values)) AS slots,
        arraySort((value, slot) -> slot, arrayFilter((value, slot) -> value != '', read_values, read_slots), arrayFilter((slot, value) -> value != '', read_slots, read_values)) AS values,
        arrayPopBack(arrayPushFront(slots, 0)) AS before_slots,
        arrayFilter((slot, before) -> bitShiftRight(slot, 6) != bitShiftRight(before, 6), slots, before_slots) AS field_slots
    FROM (
        SELECT
            * EXCEPT (said),
            all_slots AS read_slots,
            -- Whole numbers as decimal text, booleans as 0 and 1, missing values as ''.
            arrayMap(
                (slot, value) -> multiIf(
                    (transform(bitShiftLeft(toUInt64(rule), 16) + bitShiftRight(slot, 6), {factor_keys:Array(UInt64)}, {factors:Array(Float64)}, 0.) AS factor) = 0,
                    if(value = 'null' OR (startsWith(value, '-') AND (value = '-' OR toFloat64OrZero(value) < 0)), '', value),
                    factor < 0,
                    multiIf(value IN ('true', 'True', '1'), '1', value IN ('false', 'False', '0'), '0', ''),
                    factor = 1 AND toUInt64OrNull(value) IS NOT NULL,
                    value,
                    ifNull((toFloat64OrNull(value) * factor AS told) >= 0 AND told < 9e18, 0),
                    toString(toUInt64(round(assumeNotNull(told)))),
                    ''
                ),
                all_slots,
                said
            ) AS read_values
        FROM (
            SELECT
                * EXCEPT (first_values, numbers),
                arrayMap(slot -> transform(bitShiftLeft(toUInt64(rule), 32) + slot, {next_keys:Array(UInt64)}, {next_slots:Array(UInt32)}, toUInt32(0)), first_slots) AS second_slots,
                arrayMap(slot -> transform(bitShiftLeft(toUInt64(rule), 32) + slot, {next_keys:Array(UInt64)}, {next_slots:Array(UInt32)}, toUInt32(0)), second_slots) AS third_slots,
                range(transform(rule, {literal_rules:Array(UInt32)}, {literal_counts:Array(UInt8)}, toUInt8(0))) AS literals,
                arrayConcat(
                    first_slots,
                    arrayFilter(slot -> slot > 0, second_slots),
                    arrayFilter(slot -> slot > 0, third_slots),
                    arrayMap(n -> transform(bitShiftLeft(toUInt64(rule), 8) + n + 1, {literal_keys:Array(UInt64)}, {literal_slots:Array(UInt32)}, toUInt32(0)), literals)
                ) AS all_slots,
                arrayConcat(
                    first_values,
                    arrayFilter((value, slot) -> slot > 0, first_values, second_slots),
                    arrayFilter((value, slot) -> slot > 0, first_values, third_slots),
                    arrayMap(n -> transform(bitShiftLeft(toUInt64(rule), 8) + n + 1, {literal_keys:Array(UInt64)}, {literal_values:Array(String)}, ''), literals)
                ) AS said
            FROM (
                SELECT
                    *,
                    arrayMap(n -> transform(bitShiftLeft(toUInt64(rule), 16) + n, {first_keys:Array(UInt64)}, {first_slots:Array(UInt32)}, toUInt32(0)), numbers) AS number_slots,
                    arrayFilter(slot -> slot > 0, number_slots) AS first_slots,
                    arrayFilter((value, slot) -> slot > 0, mapValues(attributes), number_slots) AS first_values
                FROM (
                    SELECT
                        * EXCEPT (pair),
                        transform(
                            bitShiftLeft(toUInt64(pair), 32) + bitAnd(
                                holding,
                                transform(pair, arrayEnumerate(pairs.1), pairs.2, toUInt32(0))
                            ),
                            chosen.1, chosen.2, toUInt32(0)
                        ) AS rule
                    FROM (
                        SELECT
                            trace_id, span_id, parent_span_id, principal, received_ns, toUnixTimestamp64Nano(started_at) AS started_ns, duration_ns,
                            status_code, trace_state, defects, resource, attributes,
                            arrayMap(
                                key -> transform(key, {keys:Array(String)}, arrayMap(n -> toUInt16(n), arrayEnumerate({keys:Array(String)})), toUInt16(0)), mapKeys(attributes)
                            ) AS numbers,
                            bitAnd(
                                bitOr(
                                    {free_bits:UInt32},
                                    toUInt32(arraySum(arrayDistinct(arrayMap(
                                        n -> transform(n, {condition_numbers:Array(UInt16)}, {condition_bits:Array(UInt32)}, toUInt32(0)), numbers
                                    ))))
                                ),
                                bitNot(toUInt32(arraySum(arrayDistinct(arrayMap(
                                    (key, value, bit) -> if(resource[key] = value, 0, bit),
                                    {resource_keys:Array(String)}, {resource_values:Array(String)}, {resource_bits:Array(UInt32)}
                                )))))
                            ) AS holding,
                            transform(
                                bitShiftLeft(toUInt64(transform(scope_name, scopes, arrayEnumerate(scopes), 0)), 32)
                                    + transform(name, names, arrayEnumerate(names), 0),
                                pairs.1, arrayEnumerate(pairs.1), 0
                            ) AS pair
                        FROM spans FINAL
                        WHERE start_hour >= toStartOfHour(fromUnixTimestamp64Nano({read_from_ns:Int64}, 'UTC'))
                            AND start_hour < fromUnixTimestamp64Nano({read_to_ns:Int64}, 'UTC')
                            AND started_at >= fromUnixTimestamp64Nano({read_from_ns:Int64}, 'UTC')
                            AND started_at < fromUnixTimestamp64Nano({read_to_ns:Int64}, 'UTC')
                    )
                )
            )
        )
    )
)
