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
    ) AS chosen
SELECT
    trace_id,
    span_id,
    parent_span_id,
    principal,
    received_ns,
    started_ns,
    started_ns + duration_ns,
    rule,
    role,
    transform(rule, {rules:Array(UInt32)}, {rule_stages:Array(UInt8)}, toUInt8(0)),
    status_code = 'error',
    role IN (1, 2) AND trace_state != '' AND match(trace_state, '(^|,)\\s*ot=[^,]*\\bth:[0-9a-f]*[1-9a-f]'),
    has(defects, 'end_before_start'),
    if(sibling_key = '', '', attributes[sibling_key]),
    if(layer = 4, cityHash64(principal, resource), 0),
    if(layer = 4, resource, map()),
    arrayFilter(slot -> slot > 0, number_slots),
    arrayFilter((text, slot) -> slot > 0, mapValues(attributes), number_slots)
FROM (
    SELECT
        *,
        transform(rule, {rules:Array(UInt32)}, {rule_roles:Array(Int8)}, toInt8(0)) AS role,
        transform(rule, {rules:Array(UInt32)}, {rule_layers:Array(Int8)}, toInt8(0)) AS layer,
        transform(rule, {sibling_rules:Array(UInt32)}, {sibling_keys:Array(String)}, '') AS sibling_key,
        arrayMap(
            n -> transform(bitShiftLeft(toUInt64(rule), 16) + n, {first_keys:Array(UInt64)}, {first_slots:Array(UInt32)}, toUInt32(0)), numbers
        ) AS number_slots
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
SETTINGS min_insert_block_size_rows = 300000, min_insert_block_size_bytes = 134217728
