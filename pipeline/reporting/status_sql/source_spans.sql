-- Per source what its spans are to the profiles: the same choice of a rule as 100_rules.sql makes, once per group of spans that no rule can
-- tell apart. Stored rows: a redelivered copy counts until it is merged. Blocks of a part are sampled, because they can be skipped unread;
-- a block holds the traces of a stretch of the key, most of them whole.
WITH
    rules AS (
        SELECT rank, toString(profile) AS profile, toString(role) AS role, toString(stage) AS stage, stages, fields, scope_names, resource, attribute,
            name, name_is_prefix
        FROM profile_rules
        WHERE config_hash = {config_hash:String}
    ),
    (SELECT arrayPushBack(groupUniqArray(attribute), '') FROM rules) AS condition_keys,
    (SELECT arrayPushBack(groupUniqArrayArray(arrayFlatten(arrayMap(s -> s.2, stages))), '') FROM rules) AS stage_keys,
    (SELECT arrayPushBack(groupUniqArrayArray(arrayFlatten(arrayMap(f -> f.2, arrayFilter(f -> endsWith(f.1, '_tokens'), fields)))), '') FROM rules) AS token_keys,
    (SELECT groupUniqArrayArray(arrayZip(mapKeys(resource), mapValues(resource))) FROM rules) AS resource_pairs,
    alike AS (
        SELECT
            resource['service.name'] AS service,
            toString(principal) AS sender,
            toString(scope_name) AS scope,
            name AS span_name,
            arraySort(arrayFilter(k -> k != '' AND transform(k, condition_keys, arrayMap(x -> 1, condition_keys), 0) = 1, mapKeys(attributes))) AS held,
            arrayFilter(p -> spans.resource[p.1] = p.2, resource_pairs) AS held_pairs,
            cityHash64(service, sender, scope, span_name, held, held_pairs) AS id,
            count() AS n,
            groupUniqArrayArray(
                arrayFilter(k -> transform(k, stage_keys, arrayMap(x -> 1, stage_keys), 0) = 1, mapKeys(attributes))
            ) AS told,
            sumMap(marks, arrayMap(m -> toUInt64(1), marks)) AS marked
        FROM (
            SELECT
                *,
                arrayConcat(
                    arrayMap(d -> toString(d), defects),
                    -- -1 is how stacks spell "not known".
                    if(arrayExists(
                        (k, v) -> startsWith(v, '-') AND v NOT IN ('-', '-1') AND toFloat64OrZero(v) < 0
                            AND transform(k, token_keys, arrayMap(x -> 1, token_keys), 0) = 1,
                        mapKeys(attributes), mapValues(attributes)
                    ), ['negative_count'], [])
                ) AS marks
            FROM spans
            WHERE start_hour >= toStartOfHour({from:DateTime('UTC')}) AND start_hour < {to:DateTime('UTC')}
                AND started_at >= {from:DateTime('UTC')} AND started_at < {to:DateTime('UTC')}
                AND (cityHash64(_part) % 1000003 + intDiv(_part_offset, 8192)) % {one_in:UInt64} = 0
        ) AS spans
        GROUP BY service, sender, scope, span_name, held, held_pairs
    ),
    fitting AS (
        SELECT
            id, any(service) AS service, any(sender) AS sender, any(n) AS n, any(told) AS told, any(marked) AS marked,
            argMin((profile, role, stage, stages), rank) AS rule
        FROM alike
        CROSS JOIN (
            SELECT * FROM rules
            -- What no rule reads.
            UNION ALL
            SELECT 4294967295, '', '', '', [], [], [], map(), '', '', 1
        ) AS r
        WHERE (empty(r.scope_names) OR has(r.scope_names, scope))
            AND (span_name = r.name OR (r.name_is_prefix = 1 AND startsWith(span_name, r.name)))
            AND (r.attribute = '' OR has(held, r.attribute))
            AND hasAll(held_pairs, arrayZip(mapKeys(r.resource), mapValues(r.resource)))
        GROUP BY id
    )
SELECT
    service,
    sender AS principal,
    sum(n) AS spans,
    sumIf(n, rule.2 NOT IN ('', 'ignore')) AS read_spans,
    sumIf(n, rule.2 = 'ignore') AS ignored_spans,
    arraySort(groupUniqArrayIf(rule.1, rule.1 != '')) AS profiles,
    arraySort(arrayFilter(s -> s != '', groupUniqArrayArray(
        arrayPushBack(arrayMap(s -> s.1, arrayFilter(s -> hasAny(s.2, told), rule.4)), rule.3)
    ))) AS stages,
    sumMap(marked.1, marked.2) AS defects
FROM fitting
GROUP BY service, principal
ORDER BY spans DESC, service, principal
LIMIT {sources_max:UInt64}
