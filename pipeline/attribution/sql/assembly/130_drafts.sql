-- Attempts as their spans show them. One layer bills (gateway, else router, engine, client); what each layer said is kept in raw_usage.
INSERT INTO work_drafts
WITH
    (
        SELECT (
            arraySort(groupArray((cityHash64(resource_key, epoch), replica, listed))),
            arraySort(groupUniqArrayIf(until_ns, until_ns < {read_to_ns:Int64}))
        )
        FROM work_replicas
    ) AS replicas,
    (
        SELECT arraySort(groupArray((replica, model)))
        FROM (
            SELECT replica, min(model) AS model
            FROM inventory
            WHERE config_hash = {config_hash:String} AND from_ns < {read_to_ns:Int64} AND to_ns > {read_from_ns:Int64}
            GROUP BY replica
        )
    ) AS served,
    -- Attempts that more than one span shows; the others need no grouping.
    shared AS (SELECT trace_id, attempt FROM work_calls WHERE span_id != attempt),
    sibling_islands AS (SELECT trace_id, island FROM work_calls WHERE span_id != island),
    legs AS (SELECT trace_id, span_id, within, stage FROM work_links WHERE pass = 'leg' AND within > 0),
    -- 1. What each inference span says.
    seen AS (
        SELECT
            trace_id, root, attempt, island, foreign, outer, span_id, layer, started_ns, ended_ns, sampled, skewed, fields, failed,
            (trace_id, span_id) IN (SELECT trace_id, span_id FROM legs) AS is_leg,
            (trace_id, span_id) IN (SELECT trace_id, span_id FROM legs WHERE within = 1) AS prefills,
            -- What a decode worker was sent was not found in a cache.
            if((trace_id, span_id) IN (SELECT trace_id, span_id FROM legs WHERE stage = 1), NULL, told_read) AS cache_read,
            if((trace_id, span_id) IN (SELECT trace_id, span_id FROM legs WHERE stage = 1), NULL, told_write) AS cache_write,
            output, reasoning, first_answer_ns, queue_ns, told_input + if(excludes_cache, coalesce(told_read, 0) + coalesce(told_write, 0), 0) AS input,
            first_token_ns,
            first_token_ns - prefill_ns AS first_scheduled_ns,
            first_token_ns + decode_ns AS last_token_ns,
            -- Durations told by attributes, laid end to end in canonical order from the span's start; before them what lies between
            -- arrival and the queue, where queue and prefill are known.
            if(
                coalesce(first_token_ns - prefill_ns - queue_ns >= started_ns, 0),
                arrayPushFront(
                    durations,
                    ({tokenize:UInt8}, toInt64(assumeNotNull(first_token_ns - prefill_ns - queue_ns - started_ns)), {derived:UInt8})
                ),
                durations
            ) AS laid,
            arrayMap((d, reached) -> (d.1, started_ns + reached - d.2, started_ns + reached, d.3), laid, arrayCumSum(laid.2)) AS told,
            arrayMap(r -> (concat(toString(layer), '/', r.attribute), r.tokens, startsWith(r.field, 'output_')), raw_usage) AS raw,
            transform(
                if(resource_key = 0, 0, cityHash64(resource_key, toUInt32(arrayCount(t -> t <= started_ns, replicas.2)))),
                replicas.1.1, arrayMap(n -> toUInt32(n), arrayEnumerate(replicas.1)), toUInt32(0)
            ) AS place,
            multiIf(
                NOT is_leg, [],
                prefills, [(place, 'prefill', coalesce(first_scheduled_ns, started_ns), coalesce(first_token_ns, ended_ns, started_ns))],
                [(place, 'decode', coalesce(first_token_ns, started_ns), coalesce(last_token_ns, ended_ns, started_ns))]
            ) AS ran
        FROM (
            SELECT
                c.trace_id AS trace_id, c.root AS root, c.attempt AS attempt, c.island AS island, c.foreign AS foreign, c.outer AS outer,
                s.span_id AS span_id, s.layer AS layer, s.started_ns AS started_ns, s.ended_ns AS ended_ns, s.sampled AS sampled,
                s.skewed AS skewed,
                -- A tenant is believed only from the platform.
                if(s.principal = 'platform', s.fields, mapFilter((field, value) -> field != 'tenant', s.fields)) AS fields,
                s.raw_usage AS raw_usage, s.resource_key AS resource_key, s.excludes_cache AS excludes_cache,
                toUInt8(s.failed OR s.fields['error_type'] != '' OR toUInt64OrZero(s.fields['http_status']) >= 400) AS failed,
                toUInt64OrNull(s.fields['input_cache_read_tokens']) AS told_read,
                toUInt64OrNull(s.fields['input_cache_write_tokens']) AS told_write,
                toUInt64OrNull(s.fields['input_tokens']) AS told_input,
                toUInt64OrNull(s.fields['output_tokens']) AS output,
                toUInt64OrNull(s.fields['output_reasoning_tokens']) AS reasoning,
                s.started_ns + toInt64OrNull(s.fields['ttft_ns']) AS first_answer_ns,
                if(s.layer = 'engine', first_answer_ns, NULL) AS first_token_ns,
                toInt64OrNull(s.fields['prefill_ns']) AS prefill_ns,
                toInt64OrNull(s.fields['decode_ns']) AS decode_ns,
                toUInt64OrNull(s.fields['queue_ns']) AS queue_ns,
                arraySort(arrayMap(
                    k -> (
                        toUInt8(indexOf({stages:Array(String)}, splitByChar('/', k)[3])),
                        toInt64OrZero(s.fields[k]),
                        toUInt8(indexOf({qualities:Array(String)}, splitByChar('/', k)[2]))
                    ),
                    arrayFilter(k -> startsWith(k, 'told/'), mapKeys(s.fields))
                )) AS durations
            FROM (SELECT * FROM work_facts WHERE role = 'inference') AS s
            INNER JOIN work_calls AS c ON c.trace_id = s.trace_id AND c.span_id = s.span_id
        )
    ),
    -- 2. Siblings (n > 1) together: input once, outputs summed. Texts: the first span that says something, so the maps stand in order.
    views AS (
        SELECT
            trace_id, root, attempt, island, foreign, outer, layer, started_ns, ended_ns,
            [(started_ns, coalesce(ended_ns, started_ns))] AS spans,
            sampled, skewed, [(started_ns, span_id, mapKeys(fields), mapValues(fields))] AS texts, failed, cache_read, cache_write, output, reasoning,
            first_answer_ns, queue_ns, input, first_token_ns, first_scheduled_ns, last_token_ns, told, raw, place, ran
        FROM seen
        WHERE (trace_id, attempt) IN shared AND (trace_id, island) NOT IN sibling_islands
        UNION ALL
        SELECT
            trace_id, root, attempt, island, max(s.foreign), s.outer, layer, min(s.started_ns), max(s.ended_ns),
            groupArray((s.started_ns, coalesce(s.ended_ns, s.started_ns))),
            max(s.sampled), max(s.skewed), groupArray((s.started_ns, s.span_id, mapKeys(s.fields), mapValues(s.fields))), min(s.failed),
            max(s.cache_read), max(s.cache_write), sum(s.output), sum(s.reasoning),
            min(s.first_answer_ns), min(s.queue_ns), max(s.input), min(s.first_token_ns), min(s.first_scheduled_ns), max(s.last_token_ns),
            groupArrayArray(s.told),
            arrayMap(k -> (k.1, if(k.2, arraySum(x -> if(x.1 = k.1, x.2, 0), said), arrayMax(x -> if(x.1 = k.1, x.2, 0), said)), k.2), arrayDistinct(arrayMap(x -> (x.1, x.3), groupArrayArray(s.raw) AS said))),
            max(s.place),
            groupArrayArray(s.ran)
        FROM seen AS s
        WHERE (trace_id, attempt) IN shared AND (trace_id, island) IN sibling_islands
        GROUP BY trace_id, root, attempt, layer, outer, island
    ),
    -- 3. The layers together. A figure comes from the billing layer, else from the next one that tells it; a text from the outermost.
    several AS (
        SELECT
            trace_id, root, attempt, foreign, sampled, skewed, started_ns, ended_ns, spans, last.4 AS failed,
            mapFromArrays(
                arrayFlatten(arrayMap(v -> arrayFlatten(arraySort(x -> (x.1, x.2), v.5).3), ordered)),
                arrayFlatten(arrayMap(v -> arrayFlatten(arraySort(x -> (x.1, x.2), v.5).4), ordered))
            ) AS fields,
            arraySort(arrayMap(x -> (x.1, -toInt64(assumeNotNull(x.2))), arrayFilter(x -> isNotNull(x.2), figures))) AS inputs,
            arraySort(arrayMap(x -> (x.1, -toInt64(assumeNotNull(x.3))), arrayFilter(x -> isNotNull(x.3), figures))) AS outputs,
            arraySort(arrayMap(x -> (x.1, -toInt64(assumeNotNull(x.4))), arrayFilter(x -> isNotNull(x.4), figures))) AS reads,
            arraySort(arrayMap(x -> (x.1, -toInt64(assumeNotNull(x.5))), arrayFilter(x -> isNotNull(x.5), figures))) AS writes,
            arraySort(arrayMap(x -> (x.1, -toInt64(assumeNotNull(x.6))), arrayFilter(x -> isNotNull(x.6), figures))) AS reasonings,
            if(empty(inputs), NULL, toUInt64(-inputs[1].2)) AS input,
            if(empty(outputs), NULL, toUInt64(-outputs[1].2)) AS output,
            if(empty(reads), NULL, toUInt64(-reads[1].2)) AS cache_read,
            if(empty(writes), NULL, toUInt64(-writes[1].2)) AS cache_write,
            if(empty(reasonings), NULL, toUInt64(-reasonings[1].2)) AS reasoning,
            if(empty(inputs) AND empty(outputs), 0, arrayMin(arrayConcat(inputs.1, outputs.1))) AS turn,
            engine_output,
            arrayExists((x, before) -> x.1 != before AND x.2 != inputs[1].2, inputs, arrayPopBack(arrayPushFront(inputs.1, 0)))
                OR arrayExists((x, before) -> x.1 != before AND x.2 != outputs[1].2, outputs, arrayPopBack(arrayPushFront(outputs.1, 0))) AS mismatch,
            arrayFirst(v -> v.6.1, ordered).6.2 AS answered_ns,
            if(arrayExists(v -> v.6.1, ordered), answered_ns, NULL) AS first_answer_ns,
            first_token_ns, first_scheduled_ns, last_token_ns,
            queue_ns,
            told,
            CAST(arrayMap(x -> (x.1, arrayMax(y -> if(y.1 = x.1, y.2, 0), raws)), arrayDistinct(arrayMap(x -> tuple(x.1), raws))), 'Map(LowCardinality(String), UInt64)') AS raw_usage,
            -- Of several workers the one that answered.
            if(arrayExists(x -> x.2 = 'decode', ran), arrayFirst(x -> x.2 = 'decode', ran).1, place) AS place,
            ran
        FROM (
            SELECT
                trace_id, root, attempt,
                max(v.foreign) AS foreign,
                max(v.sampled) AS sampled,
                max(v.skewed) AS skewed,
                minIf(v.started_ns, v.outer = 0) AS started_ns,
                maxIf(v.ended_ns, v.outer = 0) AS ended_ns,
                groupArrayArrayIf(v.spans, v.outer = 0) AS spans,
                -- Outermost first; of one layer by start. Whether it failed, the outermost layer's latest span says.
                arraySort(y -> (y.1, y.2, y.3), groupArray((
                    transform(toString(v.layer), ['gateway', 'router', 'client', 'engine'], [1, 2, 3, 4], 5) + 10 * v.outer,
                    v.started_ns, v.island, v.failed, v.texts,
                    (isNotNull(v.first_answer_ns) AND v.outer = 0, ifNull(v.first_answer_ns, 0))
                ))) AS ordered,
                arrayLast(y -> y.1 = ordered[1].1, ordered) AS last,
                groupArray((
                    transform(toString(v.layer), ['gateway', 'router', 'engine', 'client'], [1, 2, 3, 4], 5) + 10 * v.outer,
                    v.input, v.output, v.cache_read, v.cache_write, v.reasoning
                )) AS figures,
                maxIf(v.output, v.layer = 'engine') AS engine_output,
                min(v.first_token_ns) AS first_token_ns,
                min(v.first_scheduled_ns) AS first_scheduled_ns,
                max(v.last_token_ns) AS last_token_ns,
                min(v.queue_ns) AS queue_ns,
                groupArrayArrayIf(v.told, v.outer = 0) AS told,
                groupArrayArray(v.raw) AS raws,
                max(v.place) AS place,
                arraySort(x -> (x.3, x.4, x.1, x.2), groupArrayArray(v.ran)) AS ran
            FROM views AS v
            GROUP BY trace_id, root, attempt
        )
    ),
    attempts AS (
        SELECT
            trace_id, root, attempt, foreign, sampled, skewed, started_ns, ended_ns, [(started_ns, coalesce(ended_ns, started_ns))] AS spans, failed, fields,
            input, output, cache_read, cache_write, reasoning,
            if(isNull(input) AND isNull(output), 0, transform(toString(layer), ['gateway', 'router', 'engine', 'client'], [1, 2, 3, 4], 5)) AS turn,
            if(layer = 'engine', output, NULL) AS engine_output,
            0 AS mismatch,
            first_answer_ns, first_token_ns, first_scheduled_ns, last_token_ns, queue_ns, told,
            CAST(arrayMap(x -> (x.1, x.2), raw), 'Map(LowCardinality(String), UInt64)') AS raw_usage,
            place, ran
        FROM seen
        WHERE (trace_id, attempt) NOT IN shared
        UNION ALL
        SELECT
            trace_id, root, attempt, foreign, sampled, skewed, started_ns, ended_ns, spans, failed, fields,
            input, output, cache_read, cache_write, reasoning, turn, engine_output, mismatch,
            first_answer_ns, first_token_ns, first_scheduled_ns, last_token_ns, queue_ns, told, raw_usage, place, ran
        FROM several
    ),
    -- 4. What its stage spans say. Those that hang on the request itself count for its only attempt.
    lone AS (SELECT trace_id, root, min(c.attempt) AS attempt FROM work_calls AS c GROUP BY trace_id, root HAVING uniqExact(c.attempt) = 1),
    stages AS (
        SELECT
            trace_id, root, attempt, facts,
            arrayFilter(x -> x.1 = {schedule:UInt8}, pieces) AS schedules,
            arrayFilter(x -> x.1 = {prefill:UInt8}, pieces) AS prefills,
            arrayFilter(x -> x.1 = {decode:UInt8}, pieces) AS decodes,
            if(empty(decodes), 9223372036854775807, arrayMin(decodes.2)) AS decode_from,
            arrayFilter(t -> t <= decode_from, prefills.3) AS prefill_ends
        FROM (
            SELECT trace_id, root, attempt, arraySort(groupArrayArray(w.intervals)) AS pieces, groupArrayArray(w.facts) AS facts
            FROM (
                SELECT trace_id, root, attempt, intervals, facts FROM work_stages WHERE attempt != toFixedString('', 8)
                UNION ALL
                SELECT s.trace_id, s.root, l.attempt, s.engine_intervals, []
                FROM (
                    SELECT
                        trace_id, root,
                        arrayFilter(x -> x.1 IN ({schedule:UInt8}, {prefill:UInt8}, {decode:UInt8}), intervals) AS engine_intervals
                    FROM work_stages
                    WHERE attempt = toFixedString('', 8) AND notEmpty(engine_intervals)
                ) AS s
                INNER JOIN lone AS l ON l.trace_id = s.trace_id AND l.root = s.root
            ) AS w
            GROUP BY trace_id, root, attempt
        )
    ),
    routes AS (
        SELECT trace_id, root, fact.2 AS started_ns, fact.3 AS span_id,
            toUInt64OrNull(fact.5['expected_hit_tokens']) AS expected, toUInt64OrNull(fact.5['best_hit_tokens']) AS best
        FROM (
            SELECT trace_id, root, arrayJoin(arrayFilter(f -> mapContains(f.5, 'expected_hit_tokens') OR mapContains(f.5, 'best_hit_tokens'), facts)) AS fact
            FROM work_stages
        )
        ORDER BY trace_id, root, started_ns, span_id
        LIMIT 1 BY trace_id, root, started_ns
    ),
    hints AS (
        SELECT trace_id, root, hint.1 AS started_ns, max(hint.2) AS span_id
        FROM work_stages
        ARRAY JOIN hints AS hint
        GROUP BY trace_id, root, started_ns
    )
SELECT
    trace_id, root, attempt, hint, failed, foreign,
    fields['tenant'],
    if(fields['model'] != '', fields['model'], transform(replica, served.1, served.2, '')),
    fields['response_model'],
    fields['provider'],
    nullIf(fields['task_id'], ''),
    nullIf(fields['client_request_id'], ''),
    nullIf(fields['response_id'], ''),
    began_ns,
    ended_ns,
    arrayMap(x -> (greatest(x.1, hint_ns), x.2), spans),
    told,
    toUInt8OrNull(fields['streamed']),
    toUInt16OrNull(fields['http_status']),
    fields['error_type'],
    if(startsWith(finish, '[') AND notEmpty(finishes), finishes[1], finish),
    input,
    output,
    -- Cached above input and reasoning above output happen; they are cut for the buckets, raw_usage keeps them.
    if(cache_read > input, input, cache_read) AS cache_read_tokens,
    if(cache_write + coalesce(cache_read_tokens, 0) > input, toUInt64(input - coalesce(cache_read_tokens, 0)), cache_write),
    if(reasoning > output, output, reasoning),
    coalesce(engine_output, output),
    raw_usage,
    transform(turn, [1, 2, 3, 4, 14], ['provider', 'gateway', 'engine', 'client', 'client'], 'none'),
    first_answer_ns,
    if(notEmpty(schedules), toUInt64(arraySum(x -> x.3 - x.2, schedules)), queue_ns),
    replica,
    arrayFilter(l -> l.1 != '', arraySort(l -> (l.3, l.4, l.1, l.2), multiIf(
        -- Stages of both say it more exactly, but a proxy's do not say where.
        (notEmpty(prefills) OR notEmpty(decodes))
            AND (empty(ran) OR arrayExists(x -> x.4 > 0 AND transform(x.4, arrayEnumerate(replicas.1), replicas.1.2, '') != '', arrayConcat(prefills, decodes))),
        arrayConcat(
            arrayMap(x -> (if(x.4 = 0, replica, transform(x.4, arrayEnumerate(replicas.1), replicas.1.2, '')), 'prefill', x.2, x.3), prefills),
            arrayMap(x -> (if(x.4 = 0, replica, transform(x.4, arrayEnumerate(replicas.1), replicas.1.2, '')), 'decode', x.2, x.3), decodes)
        ),
        notEmpty(ran),
        arrayMap(x -> (transform(x.1, arrayEnumerate(replicas.1), replicas.1.2, ''), x.2, x.3, x.4), ran),
        isNotNull(first_scheduled_ns) AND isNotNull(last_token_ns),
        [
            (replica, 'prefill', assumeNotNull(first_scheduled_ns), assumeNotNull(first_token_ns)),
            (replica, 'decode', assumeNotNull(first_token_ns), assumeNotNull(last_token_ns))
        ],
        []
    ))),
    multiIf(notEmpty(prefills), arrayMin(prefills.2), notEmpty(schedules), arrayMax(schedules.3), first_scheduled_ns),
    multiIf(notEmpty(prefill_ends), arrayMax(prefill_ends), notEmpty(decodes), decode_from, first_token_ns),
    if(notEmpty(decodes), arrayMax(decodes.3), last_token_ns),
    if(arrayExists(f -> mapContains(f.5, 'recompute_tokens'), facts), arraySum(f -> toUInt64OrZero(f.5['recompute_tokens']), facts), NULL),
    multiIf(
        arrayExists(f -> mapContains(f.5, 'rejected_draft_tokens'), facts),
        arraySum(f -> toUInt64OrZero(f.5['rejected_draft_tokens']), facts),
        arrayExists(f -> mapContains(f.5, 'draft_proposed_tokens'), facts),
        toUInt64(greatest(0, arraySum(f -> toInt64OrZero(f.5['draft_proposed_tokens']) - toInt64OrZero(f.5['draft_accepted_tokens']), facts))),
        NULL
    ),
    expected,
    best,
    arrayMap(x -> x.1, arrayFilter(x -> x.2, [
        ('foreign', foreign),
        ('ambiguous_id', (trace_id, attempt) IN (
            SELECT trace_id, attempt
            FROM work_calls
            WHERE (trace_id, span_id) IN (SELECT trace_id, span_id FROM work_adoptions WHERE state = 'ambiguous')
        )),
        ('sampled', sampled),
        ('clock_skew', skewed),
        ('cached_over_input', coalesce(coalesce(cache_read, 0) + coalesce(cache_write, 0) > input, 0)),
        ('reasoning_over_output', coalesce(reasoning > output, 0)),
        ('split_unknown', (isNotNull(input) AND isNull(cache_read)) OR (isNotNull(output) AND isNull(reasoning))),
        ('usage_mismatch', toUInt8(mismatch)),
        ('replica_unlisted', replica != '' AND transform(replica, served.1, arrayMap(x -> toUInt8(1), served), toUInt8(0)) = 0)
    ]))
FROM (
    SELECT
        a.trace_id AS trace_id, a.root AS root, a.attempt AS attempt, h.span_id AS hint, h.started_ns AS hint_ns, a.failed AS failed, a.foreign AS foreign,
        -- LiteLLM's span of a fallback begins with the request's first attempt; the hint shows when this one began.
        greatest(a.started_ns, h.started_ns) AS began_ns,
        a.ended_ns AS ended_ns, a.spans AS spans, a.told AS told, a.fields AS fields, a.sampled AS sampled, a.skewed AS skewed,
        a.input AS input, a.output AS output, a.cache_read AS cache_read, a.cache_write AS cache_write, a.reasoning AS reasoning, a.turn AS turn,
        a.engine_output AS engine_output, a.mismatch AS mismatch, a.first_answer_ns AS first_answer_ns, a.first_token_ns AS first_token_ns,
        a.first_scheduled_ns AS first_scheduled_ns, a.last_token_ns AS last_token_ns, a.queue_ns AS queue_ns, a.raw_usage AS raw_usage, a.ran AS ran,
        t.facts AS facts, t.schedules AS schedules, t.prefills AS prefills, t.decodes AS decodes, t.decode_from AS decode_from, t.prefill_ends AS prefill_ends,
        r.expected AS expected, r.best AS best,
        a.fields['finish_reason'] AS finish,
        if(startsWith(finish, '['), JSONExtract(finish, 'Array(String)'), []) AS finishes,
        arrayFirst(x -> x.4 > 0, arrayConcat(t.prefills, t.decodes)).4 AS stage_place,
        -- An inventory row, else what the span or its stages name, else what its resource calls itself.
        multiIf(
            transform(a.place, arrayEnumerate(replicas.1), replicas.1.3, toUInt8(0)) = 1, transform(a.place, arrayEnumerate(replicas.1), replicas.1.2, ''),
            a.fields['replica'] != '', a.fields['replica'],
            stage_place > 0, transform(stage_place, arrayEnumerate(replicas.1), replicas.1.2, ''),
            transform(a.place, arrayEnumerate(replicas.1), replicas.1.2, '')
        ) AS replica
    FROM attempts AS a
    LEFT ANY JOIN stages AS t ON t.trace_id = a.trace_id AND t.root = a.root AND t.attempt = a.attempt
    ASOF LEFT JOIN routes AS r ON r.trace_id = a.trace_id AND r.root = a.root AND a.started_ns >= r.started_ns
    ASOF LEFT JOIN hints AS h ON h.trace_id = a.trace_id AND h.root = a.root AND coalesce(a.ended_ns, a.started_ns) >= h.started_ns
)
