-- Attempts as their spans show them. One layer bills (gateway, else router, engine, client); what each layer said is kept in raw_usage.
INSERT INTO work_drafts
WITH
    toFixedString('', 8) AS nobody,
    (
        SELECT (
            groupArray((cityHash64(resource_key, epoch), replica, listed)),
            arraySort(groupUniqArrayIf(until_ns, until_ns < {read_to_ns:Int64}))
        )
        FROM work_replicas
    ) AS replicas,
    (
        SELECT groupArray((replica, model))
        FROM (
            SELECT replica, min(model) AS model
            FROM inventory
            WHERE config_hash = {config_hash:String} AND from_ns < {read_to_ns:Int64} AND to_ns > {read_from_ns:Int64}
            GROUP BY replica
            ORDER BY replica
        )
    ) AS served,
    -- 1. What each inference span says.
    seen AS (
        SELECT
            c.trace_id AS trace_id,
            c.root AS root,
            c.attempt AS attempt,
            c.island AS island,
            c.foreign AS foreign,
            c.outer AS outer,
            s.span_id AS span_id,
            s.layer AS layer,
            s.started_ns AS started_ns,
            s.ended_ns AS ended_ns,
            s.sampled AS sampled,
            s.skewed AS skewed,
            s.fields AS fields,
            s.failed OR s.fields['error_type'] != '' OR toUInt64OrZero(s.fields['http_status']) >= 400 AS failed,
            toUInt64OrNull(s.fields['input_cache_read_tokens']) AS cache_read,
            toUInt64OrNull(s.fields['input_cache_write_tokens']) AS cache_write,
            toUInt64OrNull(s.fields['input_tokens']) + if(s.excludes_cache, coalesce(cache_read, 0) + coalesce(cache_write, 0), 0) AS input,
            toUInt64OrNull(s.fields['output_tokens']) AS output,
            toUInt64OrNull(s.fields['output_reasoning_tokens']) AS reasoning,
            s.started_ns + toInt64OrNull(s.fields['ttft_ns']) AS first_answer_ns,
            if(s.layer = 'engine', first_answer_ns, NULL) AS first_token_ns,
            first_token_ns - toInt64OrNull(s.fields['prefill_ns']) AS first_scheduled_ns,
            first_token_ns + toInt64OrNull(s.fields['decode_ns']) AS last_token_ns,
            toUInt64OrNull(s.fields['queue_ns']) AS queue_ns,
            -- Durations told by attributes, laid end to end in canonical order from the span's start.
            arraySort(arrayConcat(
                arrayMap(
                    k -> (
                        toUInt8(indexOf({stages:Array(String)}, splitByChar('/', k)[3])),
                        toInt64OrZero(s.fields[k]),
                        toUInt8(indexOf({qualities:Array(String)}, splitByChar('/', k)[2]))
                    ),
                    arrayFilter(k -> startsWith(k, 'told/'), mapKeys(s.fields))
                ),
                -- What lies between arrival and the queue, where queue and prefill are known.
                if(
                    coalesce(first_scheduled_ns - queue_ns >= s.started_ns, 0),
                    [(
                        toUInt8(indexOf({stages:Array(String)}, 'tokenize')),
                        toInt64(assumeNotNull(first_scheduled_ns - queue_ns - s.started_ns)),
                        toUInt8(indexOf({qualities:Array(String)}, 'derived'))
                    )],
                    []
                )
            )) AS durations,
            arrayMap((d, reached) -> (d.1, s.started_ns + reached - d.2, s.started_ns + reached, d.3), durations, arrayCumSum(durations.2)) AS told,
            if(s.resource_key = 0, 0, cityHash64(s.resource_key, toUInt32(arrayCount(t -> t <= s.started_ns, replicas.2)))) AS resource_key,
            arrayMap(r -> (concat(toString(s.layer), '/', r.attribute), r.tokens), arrayFilter(r -> NOT startsWith(r.field, 'output_'), s.raw_usage)) AS raw_input,
            arrayMap(r -> (concat(toString(s.layer), '/', r.attribute), r.tokens), arrayFilter(r -> startsWith(r.field, 'output_'), s.raw_usage)) AS raw_output
        FROM (SELECT * FROM work_spans WHERE role = 'inference') AS s
        INNER JOIN work_calls AS c ON c.trace_id = s.trace_id AND c.span_id = s.span_id
    ),
    -- 2. Siblings (n > 1) together: input once, outputs summed. Texts: the first span that says something.
    islands AS (
        SELECT
            trace_id,
            root,
            attempt,
            layer,
            outer,
            island,
            transform(toString(layer), ['gateway', 'router', 'client', 'engine'], [1, 2, 3, 4], 5) + 10 * outer AS distance,
            transform(toString(layer), ['gateway', 'router', 'engine', 'client'], [1, 2, 3, 4], 5) + 10 * outer AS turn,
            max(s.foreign) AS foreign,
            min(s.started_ns) AS started_ns,
            max(s.ended_ns) AS ended_ns,
            groupArray((s.started_ns, coalesce(s.ended_ns, s.started_ns))) AS spans,
            min(s.failed) AS failed,
            max(s.sampled) AS sampled,
            max(s.skewed) AS skewed,
            max(s.input) AS input,
            sum(s.output) AS output,
            max(s.cache_read) AS cache_read,
            max(s.cache_write) AS cache_write,
            sum(s.reasoning) AS reasoning,
            min(s.first_answer_ns) AS first_answer_ns,
            min(s.first_scheduled_ns) AS first_scheduled_ns,
            min(s.first_token_ns) AS first_token_ns,
            max(s.last_token_ns) AS last_token_ns,
            min(s.queue_ns) AS queue_ns,
            groupArrayArray(s.told) AS told,
            maxMap(CAST(s.raw_input, 'Map(String, UInt64)')) AS raw_input,
            groupArrayArray(s.raw_output) AS raw_outputs,
            arrayMap(k -> (k, arraySum(x -> if(x.1 = k, x.2, 0), raw_outputs)), arrayDistinct(raw_outputs.1)) AS raw_output,
            argMinIf(s.resource_key, (s.started_ns, s.span_id), s.resource_key != 0) AS resource_key,
            argMinIf(fields['model'], (s.started_ns, s.span_id), fields['model'] != '') AS model,
            argMinIf(fields['response_model'], (s.started_ns, s.span_id), fields['response_model'] != '') AS response_model,
            argMinIf(fields['provider'], (s.started_ns, s.span_id), fields['provider'] != '') AS provider,
            argMinIf(fields['task_id'], (s.started_ns, s.span_id), fields['task_id'] != '') AS task_id,
            argMinIf(fields['client_request_id'], (s.started_ns, s.span_id), fields['client_request_id'] != '') AS client_request_id,
            argMinIf(fields['response_id'], (s.started_ns, s.span_id), fields['response_id'] != '') AS response_id,
            argMinIf(fields['streamed'], (s.started_ns, s.span_id), fields['streamed'] != '') AS streamed,
            argMinIf(fields['http_status'], (s.started_ns, s.span_id), fields['http_status'] != '') AS http_status,
            argMinIf(fields['error_type'], (s.started_ns, s.span_id), fields['error_type'] != '') AS error_type,
            argMinIf(fields['finish_reason'], (s.started_ns, s.span_id), fields['finish_reason'] != '') AS finish_reason,
            argMinIf(fields['replica'], (s.started_ns, s.span_id), fields['replica'] != '') AS named_replica,
            argMinIf(fields['tenant'], (s.started_ns, s.span_id), fields['tenant'] != '') AS tenant
        FROM seen AS s
        GROUP BY trace_id, root, attempt, layer, outer, island
    ),
    -- 3. The layers together. A figure comes from the billing layer, else from the next one that tells it.
    attempts AS (
        SELECT
            trace_id,
            root,
            attempt,
            max(i.foreign) AS foreign,
            minIf(i.started_ns, i.outer = 0) AS started_ns,
            maxIf(i.ended_ns, i.outer = 0) AS ended_ns,
            arraySort(groupArrayArrayIf(i.spans, i.outer = 0)) AS spans,
            argMinIf(i.failed, (i.distance, -toInt64(i.started_ns), i.island), i.outer = 0) AS failed,
            max(i.sampled) AS sampled,
            max(i.skewed) AS skewed,
            minIf(i.turn, isNotNull(i.input) OR isNotNull(i.output)) AS bill_turn,
            countIf(isNotNull(i.input) OR isNotNull(i.output)) > 0 AS metered,
            maxIf((-i.turn, assumeNotNull(i.input)), isNotNull(i.input)).2 AS input_value,
            countIf(isNotNull(i.input)) > 0 AS input_known,
            maxIf((-i.turn, assumeNotNull(i.output)), isNotNull(i.output)).2 AS output_value,
            countIf(isNotNull(i.output)) > 0 AS output_known,
            if(countIf(isNotNull(i.cache_read)) > 0, maxIf((-i.turn, assumeNotNull(i.cache_read)), isNotNull(i.cache_read)).2, NULL) AS cache_read,
            if(countIf(isNotNull(i.cache_write)) > 0, maxIf((-i.turn, assumeNotNull(i.cache_write)), isNotNull(i.cache_write)).2, NULL) AS cache_write,
            if(countIf(isNotNull(i.reasoning)) > 0, maxIf((-i.turn, assumeNotNull(i.reasoning)), isNotNull(i.reasoning)).2, NULL) AS reasoning,
            maxIf(i.output, i.layer = 'engine') AS engine_output,
            arrayMap(
                layer_turn -> arrayReduce('max', arrayMap(x -> x.2, arrayFilter(x -> x.1 = layer_turn AND isNotNull(x.2), figures))), arrayDistinct(figures.1)
            ) AS inputs,
            arrayMap(
                layer_turn -> arrayReduce('max', arrayMap(x -> x.3, arrayFilter(x -> x.1 = layer_turn AND isNotNull(x.3), figures))), arrayDistinct(figures.1)
            ) AS outputs,
            groupArray((i.turn, i.input, i.output)) AS figures,
            argMinIf(i.first_answer_ns, (i.distance, i.first_answer_ns), isNotNull(i.first_answer_ns) AND i.outer = 0) AS first_answer_ns,
            min(i.first_scheduled_ns) AS first_scheduled_ns,
            min(i.first_token_ns) AS first_token_ns,
            max(i.last_token_ns) AS last_token_ns,
            argMinIf(i.queue_ns, (i.distance, i.started_ns, i.island), isNotNull(i.queue_ns)) AS queue_ns,
            arraySort(groupArrayArrayIf(i.told, i.outer = 0)) AS told,
            maxMap(i.raw_input) AS raw_input,
            maxMap(CAST(i.raw_output, 'Map(String, UInt64)')) AS raw_output,
            argMinIf(i.resource_key, (i.distance, i.started_ns, i.island), i.resource_key != 0) AS resource_key,
            argMinIf(i.model, (i.distance, i.started_ns, i.island), i.model != '') AS model,
            argMinIf(i.response_model, (i.distance, i.started_ns, i.island), i.response_model != '') AS response_model,
            argMinIf(i.provider, (i.distance, i.started_ns, i.island), i.provider != '') AS provider,
            argMinIf(i.task_id, (i.distance, i.started_ns, i.island), i.task_id != '') AS task_id,
            argMinIf(i.client_request_id, (i.distance, i.started_ns, i.island), i.client_request_id != '') AS client_request_id,
            argMinIf(i.response_id, (i.distance, i.started_ns, i.island), i.response_id != '') AS response_id,
            argMinIf(i.streamed, (i.distance, i.started_ns, i.island), i.streamed != '') AS streamed,
            argMinIf(i.http_status, (i.distance, i.started_ns, i.island), i.http_status != '') AS http_status,
            argMinIf(i.error_type, (i.distance, i.started_ns, i.island), i.error_type != '') AS error_type,
            argMinIf(i.finish_reason, (i.distance, i.started_ns, i.island), i.finish_reason != '') AS finish_reason,
            argMinIf(i.named_replica, (i.distance, i.started_ns, i.island), i.named_replica != '') AS named_replica,
            argMinIf(i.tenant, (i.distance, i.started_ns, i.island), i.tenant != '') AS tenant
        FROM islands AS i
        GROUP BY trace_id, root, attempt
    ),
    -- 4. What its stage spans say. Those that hang on the request itself count for its only attempt.
    lone AS (SELECT trace_id, root, min(c.attempt) AS attempt FROM work_calls AS c GROUP BY trace_id, root HAVING uniqExact(c.attempt) = 1),
    stages AS (
        SELECT
            trace_id,
            root,
            attempt,
            arraySort(groupArrayArray(w.intervals)) AS pieces,
            groupArrayArray(w.facts) AS facts
        FROM (
            SELECT trace_id, root, attempt, intervals, facts FROM work_stages WHERE attempt != nobody
            UNION ALL
            SELECT s.trace_id, s.root, l.attempt, s.engine_intervals, []
            FROM (
                SELECT
                    trace_id,
                    root,
                    arrayFilter(x -> {stages:Array(String)}[x.1] IN ('schedule', 'kv_cache', 'prefill', 'decode'), intervals) AS engine_intervals
                FROM work_stages
                WHERE attempt = nobody AND notEmpty(engine_intervals)
            ) AS s
            INNER JOIN lone AS l ON l.trace_id = s.trace_id AND l.root = s.root
        ) AS w
        GROUP BY trace_id, root, attempt
    ),
    timed AS (
        SELECT
            *,
            arrayFilter(x -> x.1 = indexOf({stages:Array(String)}, 'schedule'), pieces) AS schedules,
            arrayFilter(x -> x.1 = indexOf({stages:Array(String)}, 'prefill'), pieces) AS prefills,
            arrayFilter(x -> x.1 = indexOf({stages:Array(String)}, 'decode'), pieces) AS decodes,
            if(empty(decodes), 9223372036854775807, arrayMin(decodes.2)) AS decode_from,
            arrayFilter(t -> t <= decode_from, prefills.3) AS prefill_ends
        FROM stages
    ),
    routes AS (
        SELECT trace_id, root, fact.started_ns AS started_ns, fact.span_id AS span_id,
            toUInt64OrNull(fact.fields['expected_hit_tokens']) AS expected, toUInt64OrNull(fact.fields['best_hit_tokens']) AS best
        FROM (
            SELECT trace_id, root, arrayJoin(arrayFilter(f -> mapContains(f.5, 'expected_hit_tokens') OR mapContains(f.5, 'best_hit_tokens'), facts)) AS fact
            FROM work_stages
        )
    ),
    hints AS (
        SELECT trace_id, root, hint.started_ns AS started_ns, max(hint.span_id) AS span_id
        FROM work_stages
        ARRAY JOIN hints AS hint
        GROUP BY trace_id, root, started_ns
    )
SELECT
    a.trace_id,
    a.root,
    a.attempt,
    h.span_id,
    a.failed,
    a.foreign,
    a.tenant,
    if(a.model != '', a.model, transform(replica, served.1, served.2, '')),
    a.response_model,
    a.provider,
    nullIf(a.task_id, ''),
    nullIf(a.client_request_id, ''),
    nullIf(a.response_id, ''),
    -- LiteLLM's span of a fallback begins with the request's first attempt; the hint shows when this one began.
    greatest(a.started_ns, h.started_ns),
    a.ended_ns,
    arrayMap(x -> (greatest(x.1, h.started_ns), x.2), a.spans),
    a.told,
    toUInt8OrNull(a.streamed),
    toUInt16OrNull(a.http_status),
    a.error_type,
    if(
        startsWith(a.finish_reason, '['),
        if(notEmpty(JSONExtract(a.finish_reason, 'Array(String)')), JSONExtract(a.finish_reason, 'Array(String)')[1], a.finish_reason),
        a.finish_reason
    ),
    if(a.input_known, a.input_value, NULL) AS input_tokens,
    if(a.output_known, a.output_value, NULL) AS output_tokens,
    -- Cached above input and reasoning above output happen; they are cut for the buckets, raw_usage keeps them.
    if(a.cache_read > input_tokens, input_tokens, a.cache_read) AS cache_read_tokens,
    if(a.cache_write + coalesce(cache_read_tokens, 0) > input_tokens, toUInt64(input_tokens - coalesce(cache_read_tokens, 0)), a.cache_write),
    if(a.reasoning > output_tokens, output_tokens, a.reasoning),
    coalesce(a.engine_output, output_tokens),
    mapConcat(a.raw_input, a.raw_output),
    transform(if(a.metered, a.bill_turn, 0), [1, 2, 3, 4, 14], ['provider', 'gateway', 'engine', 'client', 'client'], 'none'),
    a.first_answer_ns,
    if(notEmpty(t.schedules), toUInt64(arraySum(x -> x.3 - x.2, t.schedules)), a.queue_ns),
    -- An inventory row, else what the span or its stages name, else what its resource calls itself.
    multiIf(
        transform(a.resource_key, replicas.1.1, replicas.1.3, toUInt8(0)) = 1, transform(a.resource_key, replicas.1.1, replicas.1.2, ''),
        a.named_replica != '', a.named_replica,
        arrayFirst(x -> x.4 != '', arrayConcat(t.prefills, t.decodes)).4 != '', arrayFirst(x -> x.4 != '', arrayConcat(t.prefills, t.decodes)).4,
        transform(a.resource_key, replicas.1.1, replicas.1.2, '')
    ) AS replica,
    arrayFilter(l -> l.1 != '', arraySort(l -> (l.3, l.4, l.1, l.2), multiIf(
        notEmpty(t.prefills) OR notEmpty(t.decodes),
        arrayConcat(
            arrayMap(x -> (if(x.4 = '', replica, x.4), 'prefill', x.2, x.3), t.prefills),
            arrayMap(x -> (if(x.4 = '', replica, x.4), 'decode', x.2, x.3), t.decodes)
        ),
        isNotNull(a.first_scheduled_ns) AND isNotNull(a.last_token_ns),
        [
            (replica, 'prefill', assumeNotNull(a.first_scheduled_ns), assumeNotNull(a.first_token_ns)),
            (replica, 'decode', assumeNotNull(a.first_token_ns), assumeNotNull(a.last_token_ns))
        ],
        []
    ))),
    multiIf(
        notEmpty(t.prefills), arrayMin(t.prefills.2),
        notEmpty(t.schedules), arrayMax(t.schedules.3),
        a.first_scheduled_ns
    ),
    multiIf(
        notEmpty(t.prefill_ends), arrayMax(t.prefill_ends),
        notEmpty(t.decodes), t.decode_from,
        a.first_token_ns
    ),
    if(notEmpty(t.decodes), arrayMax(t.decodes.3), a.last_token_ns),
    if(
        arrayExists(f -> mapContains(f.5, 'recompute_tokens'), t.facts),
        arraySum(f -> toUInt64OrZero(f.5['recompute_tokens']), t.facts),
        NULL
    ),
    multiIf(
        arrayExists(f -> mapContains(f.5, 'rejected_draft_tokens'), t.facts),
        arraySum(f -> toUInt64OrZero(f.5['rejected_draft_tokens']), t.facts),
        arrayExists(f -> mapContains(f.5, 'draft_proposed_tokens'), t.facts),
        toUInt64(greatest(0, arraySum(f -> toInt64OrZero(f.5['draft_proposed_tokens']) - toInt64OrZero(f.5['draft_accepted_tokens']), t.facts))),
        NULL
    ),
    r.expected,
    r.best,
    arrayMap(x -> x.1, arrayFilter(x -> x.2, [
        ('foreign', a.foreign = 1),
        ('sampled', a.sampled = 1),
        ('clock_skew', a.skewed = 1),
        ('cached_over_input', coalesce(coalesce(a.cache_read, 0) + coalesce(a.cache_write, 0) > input_tokens, 0)),
        ('split_unknown', (a.input_known AND isNull(a.cache_read)) OR (a.output_known AND isNull(a.reasoning))),
        (
            'usage_mismatch',
            arrayExists(x -> ifNull(x != input_tokens, 0), a.inputs)
                OR arrayExists(x -> ifNull(x != output_tokens, 0), a.outputs)
        ),
        (
            'replica_unlisted',
            replica != '' AND NOT has(served.1, replica)
        )
    ]))
FROM attempts AS a
LEFT JOIN timed AS t ON t.trace_id = a.trace_id AND t.root = a.root AND t.attempt = a.attempt
ASOF LEFT JOIN routes AS r ON r.trace_id = a.trace_id AND r.root = a.root AND a.started_ns >= r.started_ns
ASOF LEFT JOIN hints AS h ON h.trace_id = a.trace_id AND h.root = a.root AND coalesce(a.ended_ns, a.started_ns) >= h.started_ns
