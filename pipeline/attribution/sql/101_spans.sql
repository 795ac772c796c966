-- Reads the spans, once. Rules and fields are found with transform() over constant arrays: a join costs more than all the rest.
INSERT INTO work_spans
WITH
    -- What rules ask of a span besides its names, one bit each; sorted, so that equal configurations give equal bits.
    conditions AS (
        SELECT attribute, resource, row_number() OVER (ORDER BY attribute, toString(resource)) - 1 AS bit
        FROM (
            SELECT DISTINCT attribute, resource
            FROM profile_rules
            WHERE config_hash = {config_hash:String} AND (attribute != '' OR notEmpty(resource))
        )
    ),
    -- Names to rules: (scope, name) -> pair -> (pair, conditions that hold) -> rank + 1 (0: no rule).
    (SELECT arraySort(groupUniqArray(scope_name)) FROM work_rules) AS scopes,
    (SELECT arraySort(groupUniqArray(name)) FROM work_rules) AS names,
    (
        SELECT groupArray((toUInt64(pair), relevant))
        FROM (
            SELECT DISTINCT bitShiftLeft(toUInt64(indexOf(scopes, scope_name)), 32) + transform(name, names, arrayEnumerate(names), 0) AS pair, relevant
            FROM work_rules
            ORDER BY pair
        )
    ) AS pairs,
    (
        SELECT groupArray((bitShiftLeft(toUInt64(n), 32) + holding, toUInt32(rank + 1)))
        FROM (
            SELECT
                transform(
                    bitShiftLeft(toUInt64(indexOf(scopes, scope_name)), 32) + transform(name, names, arrayEnumerate(names), 0),
                    pairs.1, arrayEnumerate(pairs.1), 0
                ) AS n,
                holding,
                rank
            FROM work_rules
            ORDER BY n, holding
        )
    ) AS chosen,
    -- What a rule says of a span as such.
    (
        -- Tuples: groupArray of a single column that is stored sparse forgets the order (26.9).
        SELECT groupArray((
            toUInt32(rank + 1),
            toInt8(role),
            toInt8(layer),
            toUInt8(multiIf(role = 'inference', indexOf({stages:Array(String)}, ''), stage = '', 0, indexOf({stages:Array(String)}, stage))),
            siblings_by,
            delivery_proof,
            toUInt8(arrayExists(f -> f.field = 'input_tokens' AND f.includes_cache = 0, fields))
        ))
        FROM (SELECT * FROM profile_rules WHERE config_hash = {config_hash:String} AND rank IN (SELECT rank FROM work_rules) ORDER BY rank)
    ) AS rules,
    -- Every reading (rule, field, place in its list of keys); `told/…` are stage durations told by attributes.
    (
        SELECT groupArray((reader, field, place, key, factor, use))
        FROM (
            SELECT
                toUInt32(rank + 1) AS reader,
                reading.1 AS field,
                toUInt16(place) AS place,
                key,
                -- 0: text, -1: boolean, else a number and what one unit of it is.
                multiIf(
                    field IN ('streamed', 'disconnected', 'blocked'), -1.,
                    reading.3 != 1 OR endsWith(field, '_tokens') OR endsWith(field, '_ns') OR startsWith(field, 'told/')
                        OR field IN ('http_status', 'attempt_no'), reading.3,
                    0.
                ) AS factor,
                row_number() OVER (PARTITION BY reader, key ORDER BY field) AS use
            FROM profile_rules
            ARRAY JOIN arrayConcat(
                arrayMap(f -> (f.field, f.keys, f.ns_per_unit), fields),
                arrayMap(f -> (concat('told/', f.quality, '/', f.stage), f.keys, f.ns_per_unit), stages)
            ) AS reading
            ARRAY JOIN reading.2 AS key, arrayEnumerate(reading.2) AS place
            WHERE config_hash = {config_hash:String} AND rank IN (SELECT rank FROM work_rules)
            ORDER BY reader, field, place
        )
    ) AS readings,
    arraySort(arrayDistinct(readings.2)) AS field_names,
    -- Attribute names to small numbers; conditions and readings are looked up by these.
    (SELECT arraySort(arrayDistinct(arrayConcat(readings.4, groupUniqArray(attribute)))) FROM conditions) AS keys,
    (
        SELECT groupArray((toUInt16(indexOf(keys, attribute)), bits))
        FROM (SELECT attribute, toUInt32(sum(bitShiftLeft(toUInt64(1), bit))) AS bits FROM conditions WHERE attribute != '' GROUP BY attribute ORDER BY attribute)
    ) AS attribute_bits,
    (
        SELECT (
            toUInt32(sumIf(bitShiftLeft(toUInt64(1), bit), attribute = '')),
            toUInt32(sumIf(bitShiftLeft(toUInt64(1), bit), empty(resource))),
            groupArrayIf((toUInt32(bitShiftLeft(toUInt64(1), bit)), resource), notEmpty(resource))
        )
        FROM (SELECT * FROM conditions ORDER BY bit)
    ) AS free,
    -- (rule, attribute) -> field * 64 + place. An attribute may serve several fields of one rule: first, second, third use.
    arrayMap(
        n -> arrayMap(x -> bitShiftLeft(toUInt64(x.1), 16) + indexOf(keys, x.4), arrayFilter(x -> x.6 = n AND NOT startsWith(x.4, '='), readings)), [1, 2, 3]
    ) AS read_keys,
    arrayMap(
        n -> arrayMap(x -> toUInt32(indexOf(field_names, x.2) * 64 + x.3), arrayFilter(x -> x.6 = n AND NOT startsWith(x.4, '='), readings)), [1, 2, 3]
    ) AS read_slots,
    -- (rule, field) -> factor; (rule, slot) -> attribute name; (rule, n) -> what an absent flag means.
    arrayMap(x -> bitShiftLeft(toUInt64(x.1), 16) + indexOf(field_names, x.2), readings) AS factor_keys,
    readings.5 AS factors,
    arrayMap(x -> bitShiftLeft(toUInt64(x.1), 32) + indexOf(field_names, x.2) * 64 + x.3, readings) AS slot_keys,
    readings.4 AS slot_attributes,
    arrayFilter(x -> startsWith(x.4, '='), readings) AS literals,
    arrayMap((x, n) -> bitShiftLeft(toUInt64(x.1), 8) + n, literals, arrayEnumerateUniq(literals.1)) AS literal_keys,
    arrayMap(x -> toUInt32(indexOf(field_names, x.2) * 64 + x.3), literals) AS literal_slots,
    arrayMap(x -> substring(x.4, 2), literals) AS literal_values,
    range(1, 1 + arrayMax(arrayPushBack(arrayEnumerateUniq(literals.1), 0))) AS literal_numbers
SELECT
    trace_id,
    span_id,
    parent_span_id,
    principal,
    received_ns,
    toUnixTimestamp64Nano(started_at) AS started_ns,
    started_ns + duration_ns,
    transform(rule, rules.1, rules.2, toInt8(0)) AS role,
    transform(rule, rules.1, rules.3, toInt8(0)) AS layer,
    transform(rule, rules.1, rules.4, toUInt8(0)),
    status_code = 'error',
    transform(rule, rules.1, rules.6, toUInt8(0)),
    transform(rule, rules.1, rules.7, toUInt8(0)),
    role IN (1, 2) AND trace_state != '' AND match(trace_state, '(^|,)\\s*ot=[^,]*\\bth:[0-9a-f]*[1-9a-f]'),
    has(defects, 'end_before_start'),
    attributes[transform(rule, rules.1, rules.5, '')],
    CAST(
        arrayMap(
            x -> (transform(bitShiftRight(x.1, 6), arrayEnumerate(field_names), field_names, ''), x.2),
            -- The first place that has a value.
            arrayFilter((x, before) -> bitShiftRight(x.1, 6) != bitShiftRight(before, 6), values, arrayPopBack(arrayPushFront(values.1, 0)))
        ),
        'Map(LowCardinality(String), String)'
    ),
    if(
        role = 2,
        arrayMap(
            x -> (
                transform(bitShiftLeft(toUInt64(rule), 32) + x.1, slot_keys, slot_attributes, ''),
                transform(bitShiftRight(x.1, 6), arrayEnumerate(field_names), field_names, ''),
                toUInt64OrZero(x.2)
            ),
            arrayFilter(x -> has(token_fields, bitShiftRight(x.1, 6)), values)
        ),
        []
    ),
    if(layer = 4, cityHash64(principal, resource), 0),
    if(layer = 4, resource, map())
FROM (
    SELECT
        *,
        arrayFilter(n -> endsWith(field_names[n], '_tokens'), arrayEnumerate(field_names)) AS token_fields,
        arrayMap(key -> transform(key, keys, arrayMap(n -> toUInt16(n), arrayEnumerate(keys)), toUInt16(0)), mapKeys(attributes)) AS numbers,
        bitAnd(
            bitOr(free.1, toUInt32(arraySum(arrayDistinct(arrayMap(n -> transform(n, attribute_bits.1, attribute_bits.2, toUInt32(0)), numbers))))),
            bitOr(free.2, toUInt32(arraySum(arrayMap(c -> if(arrayAll((k, v) -> resource[k] = v, mapKeys(c.2), mapValues(c.2)), c.1, 0), free.3))))
        ) AS holding,
        transform(
            bitShiftLeft(toUInt64(transform(scope_name, scopes, arrayEnumerate(scopes), 0)), 32) + transform(name, names, arrayEnumerate(names), 0),
            pairs.1, arrayEnumerate(pairs.1), 0
        ) AS pair,
        transform(
            bitShiftLeft(toUInt64(pair), 32) + bitAnd(holding, transform(pair, arrayEnumerate(pairs.1), pairs.2, toUInt32(0))),
            chosen.1, chosen.2, toUInt32(0)
        ) AS rule,
        arrayConcat(
            arrayZip(arrayMap(n -> transform(bitShiftLeft(toUInt64(rule), 16) + n, read_keys[1], read_slots[1], toUInt32(0)), numbers), mapValues(attributes)),
            arrayZip(arrayMap(n -> transform(bitShiftLeft(toUInt64(rule), 16) + n, read_keys[2], read_slots[2], toUInt32(0)), numbers), mapValues(attributes)),
            arrayZip(arrayMap(n -> transform(bitShiftLeft(toUInt64(rule), 16) + n, read_keys[3], read_slots[3], toUInt32(0)), numbers), mapValues(attributes)),
            arrayMap(
                n -> (
                    transform(bitShiftLeft(toUInt64(rule), 8) + n, literal_keys, literal_slots, toUInt32(0)),
                    transform(bitShiftLeft(toUInt64(rule), 8) + n, literal_keys, literal_values, '')
                ),
                literal_numbers
            )
        ) AS pieces,
        arraySort(arrayFilter(x -> x.2 != '', arrayMap(
            x -> (
                x.1,
                multiIf(
                    transform(bitShiftLeft(toUInt64(rule), 16) + bitShiftRight(x.1, 6), factor_keys, factors, 0.) AS factor = 0,
                    if(x.2 IN ('-', 'null') OR toFloat64OrZero(x.2) < 0, '', x.2),
                    factor < 0,
                    multiIf(x.2 IN ('true', 'True', '1'), '1', x.2 IN ('false', 'False', '0'), '0', ''),
                    factor = 1 AND toUInt64OrNull(x.2) IS NOT NULL,
                    x.2,
                    (toFloat64OrNull(x.2) AS number) >= 0 AND number * factor < 9e18,
                    toString(toUInt64(round(number * factor))),
                    ''
                )
            ),
            arrayFilter(x -> x.1 > 0, pieces)
        ))) AS values
    FROM spans FINAL
    WHERE start_hour >= toStartOfHour(fromUnixTimestamp64Nano({read_from_ns:Int64}, 'UTC'))
        AND start_hour < fromUnixTimestamp64Nano({read_to_ns:Int64}, 'UTC')
        AND started_at >= fromUnixTimestamp64Nano({read_from_ns:Int64}, 'UTC')
        AND started_at < fromUnixTimestamp64Nano({read_to_ns:Int64}, 'UTC')
)
