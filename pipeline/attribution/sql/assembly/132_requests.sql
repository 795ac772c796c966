-- Requests: root span, the attempt that answered, stages of all. A request belongs to the window of its root span's start.
INSERT INTO work_requests
WITH
    toFixedString('', 8) AS nobody,
    arrayReverse(range({kernel:UInt8}, length({stages:Array(String)}) + 1)) AS inner_ranks,
    (
        SELECT groupArray((alias, tenant))
        FROM (SELECT arrayJoin(aliases) AS alias, tenant FROM tenants WHERE config_hash = {config_hash:String} ORDER BY alias, tenant)
    ) AS named,
    (SELECT groupUniqArray(tenant) FROM tenants WHERE config_hash = {config_hash:String}) AS listed,
    -- Objectives: their dates divide the range into epochs; in each, one row per (tenant, model) holds.
    (
        SELECT arraySort(arrayDistinct(arrayFilter(
            t -> t > {read_from_ns:Int64} AND t < {read_to_ns:Int64}, arrayConcat(groupArray(from_ns), groupArray(to_ns))
        )))
        FROM slos
        WHERE config_hash = {config_hash:String}
    ) AS slo_borders,
    (
        SELECT groupArray((
            concat(toString(epoch), '\0', tenant, '\0', model),
            toInt64(ifNull(ttft_ns, -1)),
            toInt64(ifNull(tpot_ns, -1)),
            toInt64(ifNull(e2e_ns, -1))
        ))
        FROM (
            SELECT begin - 1 AS epoch, tenant, model, ttft_ns, tpot_ns, e2e_ns
            FROM (SELECT *, arrayPushFront(slo_borders, {read_from_ns:Int64}) AS begins FROM slos WHERE config_hash = {config_hash:String})
            ARRAY JOIN arrayEnumerate(begins) AS begin
            WHERE from_ns <= begins[begin] AND to_ns > begins[begin]
            ORDER BY epoch, tenant, model
            LIMIT 1 BY epoch, tenant, model
        )
    ) AS slo_rows,
    roots AS (
        SELECT
            s.trace_id AS trace_id,
            s.span_id AS root,
            s.role AS role,
            s.principal AS principal,
            s.started_ns AS started_ns,
            s.ended_ns AS ended_ns,
            s.stage AS stage,
            s.failed AS failed,
            s.sampled AS sampled,
            s.skewed AS skewed,
            s.fields AS fields,
            toUInt16OrNull(s.fields['http_status']) AS http_status
        FROM (SELECT * FROM work_facts WHERE role IN ('request', 'inference')) AS s
        WHERE s.role = 'request' OR (s.trace_id, s.span_id) IN (SELECT trace_id, root FROM work_nodes WHERE role = 'inference')
    ),
    -- Its attempts in their order. A hint without a call failed if another attempt follows (2: nobody knows).
    courses AS (
        SELECT
            trace_id,
            root,
            arraySort(groupArray((d.started_ns, d.attempt, if(d.hint = d.attempt, 2, d.failed)))) AS attempts,
            arrayMap((x, n) -> if(x.3 = 2 AND n < length(attempts), 1, x.3), attempts, arrayEnumerate(attempts)) AS failures,
            sum(d.generated_tokens) AS generated_tokens,
            max(d.ended_ns) AS ended_ns,
            argMinIf(d.tenant, (d.started_ns, d.attempt), d.tenant != '') AS tenant,
            argMinIf(d.model, (d.started_ns, d.attempt), d.model != '') AS model,
            groupArrayArray(d.spans) AS spans,
            groupArrayArray(d.told) AS told,
            groupArrayArray(d.flags) AS flags
        FROM work_drafts AS d
        GROUP BY trace_id, root
    ),
    -- Its stage spans. Busy times of kernel, hbm and network (`told`, inside prefill and decode) are no intervals.
    staged AS (
        SELECT
            trace_id,
            root,
            groupArrayArray(arrayMap(x -> (x.1, x.2, x.3), w.intervals)) AS intervals,
            groupArrayArray(arrayMap(
                f -> arrayMap(
                    k -> (
                        w.within,
                        toUInt8(indexOf({stages:Array(String)}, splitByChar('/', k)[3])),
                        toUInt64OrZero(f.5[k]),
                        toUInt8(indexOf({qualities:Array(String)}, splitByChar('/', k)[2])),
                        f.2
                    ),
                    arrayFilter(k -> startsWith(k, 'told/'), mapKeys(f.5))
                ),
                w.facts
            )) AS told_lists,
            arraySort(groupArrayArray(arrayMap(
                f -> (f.2, f.4, toUInt64OrNull(f.5['delivered_tokens']), f.5['disconnected']),
                arrayFilter(f -> f.1 = {stream:UInt8}, w.facts)
            ))) AS streams,
            arraySort(groupArrayArray(if(
                w.principal = 'platform',
                arrayMap(f -> (f.2, f.3, f.5['tenant']), arrayFilter(f -> f.5['tenant'] != '', w.facts)),
                []
            ))) AS tenants
        FROM work_stages AS w
        GROUP BY trace_id, root
    ),
    joined AS (
        SELECT
            r.trace_id AS trace_id,
            r.root AS root,
            r.role AS role,
            r.principal AS principal,
            r.started_ns AS started_ns,
            r.ended_ns AS ended_ns,
            r.stage AS stage,
            r.failed AS failed,
            r.sampled AS sampled,
            r.skewed AS skewed,
            r.fields AS fields,
            r.http_status AS http_status,
            c.attempts AS attempts,
            arrayMap(x -> if(x = 2, toUInt8(r.failed OR ifNull(r.http_status, 0) >= 400), x), c.failures) AS failures,
            arrayLastIndex(x -> x = 0, failures) AS good,
            if(good > 0, good, length(attempts)) AS answering,
            if(answering > 0, attempts[answering].2, nobody) AS answer,
            c.generated_tokens AS generated_tokens,
            if(r.role = 'request', r.ended_ns, r.ended_ns + greatest(0, coalesce(c.ended_ns - r.ended_ns, 0))) AS closed_ns,
            c.tenant AS call_tenant,
            c.model AS call_model,
            c.spans AS spans,
            c.told AS told,
            c.flags AS flags,
            s.intervals AS intervals,
            arrayFlatten(s.told_lists) AS told_by_stages,
            s.streams AS streams,
            s.tenants AS stage_tenants
        FROM roots AS r
        LEFT ANY JOIN courses AS c ON c.trace_id = r.trace_id AND c.root = r.root
        LEFT ANY JOIN staged AS s ON s.trace_id = r.trace_id AND s.root = r.root
    ),
    drawn AS (
        SELECT
            *,
            multiIf(
                principal != 'platform', substring(principal, 8),
                fields['tenant'] != '', fields['tenant'],
                call_tenant != '', call_tenant,
                notEmpty(stage_tenants), stage_tenants[1].3,
                ''
            ) AS tenant_said,
            -- Everything that is drawn on the request's time line: (stage, from, to), cut to the request.
            arrayFilter(x -> x.3 > x.2, arrayMap(
                x -> (x.1, greatest(x.2, started_ns), least(x.3, assumeNotNull(closed_ns))),
                arrayConcat(
                    if(stage > 0, [(stage, started_ns, assumeNotNull(closed_ns))], []),
                    intervals,
                    arrayMap(x -> ({inference:UInt8}, x.1, x.2), spans),
                    arrayMap(x -> (x.1, x.2, x.3), told),
                    arrayMap(x -> (x.2, x.5, x.5 + toInt64(x.3)), arrayFilter(x -> x.2 < {kernel:UInt8}, told_by_stages))
                )
            )) AS drawn,
            -- Every stage that somebody emitted, with the quality of its least certain part.
            arrayConcat(
                if(role = 'request' AND stage > 0, [(stage, toUInt8(1))], []),
                arrayMap(x -> (x.1, toUInt8(1)), arrayFilter(x -> x.1 > 0, intervals)),
                arrayMap(x -> (x.1, x.4), told),
                arrayMap(x -> (x.2, x.4), told_by_stages)
            ) AS emitted,
            arraySort(emitted) AS by_rank,
            -- (rank, quality) of each stage once.
            arrayFilter((x, next) -> x.1 != next, by_rank, arrayResize(arrayPopFront(by_rank.1), length(by_rank), toUInt8(0))) AS stages
        FROM joined
    ),
    -- The union of all that lies at a rank or further in; what it has more than the next rank's is the rank's own.
    covered AS (
        SELECT
            *,
            if(isNull(closed_ns), [], arraySort(arrayDistinct(arrayConcat(drawn.1, stages.1)))) AS ranks,
            arrayMap(rank -> arrayReduce('intervalLengthSumIf', drawn.2, drawn.3, arrayMap(x -> x >= rank, drawn.1)), ranks) AS covered_ns,
            arrayFilter(x -> x.2 >= {kernel:UInt8}, told_by_stages) AS busy
        FROM drawn
    ),
    owned AS (
        SELECT
            * EXCEPT (busy),
            arrayMap((here, further_in) -> here - further_in, covered_ns, arrayResize(arrayPopFront(covered_ns), length(covered_ns), 0)) AS own_ns,
            arrayMap(x -> (if(x.1 > 0, x.1, if(has(ranks, {decode:UInt8}), {decode:UInt8}, {prefill:UInt8})), x.2, x.3), busy) AS busy_times
        FROM covered
    ),
    -- Busy times inside a stage are taken out of its own time, innermost first, as far as that reaches: (rank, from rank, ns).
    divided AS (
        SELECT
            * EXCEPT (busy_times),
            arrayFilter(rank -> rank != {inference:UInt8}, ranks) AS plain_ranks,
            arrayFilter((ns, rank) -> rank != {inference:UInt8}, own_ns, ranks) AS plain_ns,
            arrayFlatten(arrayMap(
                outside -> arrayMap(
                    (rank, ns, reached) -> (
                        rank,
                        outside,
                        least(reached, own_ns[indexOf(ranks, outside)]) - least(reached - ns, own_ns[indexOf(ranks, outside)])
                    ),
                    inner_ranks,
                    arrayMap(rank -> arraySum(x -> if(x.2 = rank AND x.1 = outside, x.3, 0), busy_times), inner_ranks) AS sums,
                    arrayCumSum(sums)
                ),
                arrayDistinct(busy_times.1)
            )) AS carved
        FROM owned
    ),
    met AS (
        SELECT
            r.*,
            d.* EXCEPT (of_trace, of_root, of_attempt, answer_streamed, answer_status, answer_error, answer_source),
            coalesce(toUInt8OrNull(r.fields['streamed']), d.answer_streamed) AS streamed,
            coalesce(r.http_status, d.answer_status) AS status,
            if(r.fields['error_type'] != '', r.fields['error_type'], d.answer_error) AS error_type,
            if(r.answering = 0, 'none', toString(d.answer_source)) AS usage_source,
            r.role = 'request' AND (r.trace_id, r.root) NOT IN (SELECT trace_id, root FROM work_nodes WHERE role = 'inference' AND layer = 'engine') AS unseen,
            toUInt64(r.closed_ns - r.started_ns) AS e2e_ns,
            if(notEmpty(r.streams), r.streams[1].1, d.first_answer_ns) - r.started_ns AS answered_after,
            r.fields['blocked'] = '1' AS blocked,
            r.fields['disconnected'] = '1' OR ifNull(r.http_status, 0) = 499 OR arrayExists(x -> x.4 = '1', r.streams)
                OR d.finish_reason = 'abort' AS disconnected, -- an engine's word for a request that was taken back
            r.role = 'request' AND (r.failed OR ifNull(r.http_status, 0) >= 400) AS refused,
            arrayMap(x -> assumeNotNull(x.3), arrayFilter(x -> isNotNull(x.3), r.streams)) AS streamed_tokens,
            multiIf(
                r.tenant_said = '', 'unknown',
                r.principal = 'platform', transform(r.tenant_said, named.1, named.2, r.tenant_said),
                r.tenant_said
            ) AS tenant,
            multiIf(d.answer_model != '', d.answer_model, r.fields['model'] != '', r.fields['model'], r.call_model != '', r.call_model, 'unknown') AS model
        FROM divided AS r
        LEFT ANY JOIN (
            SELECT
                trace_id AS of_trace, root AS of_root, attempt AS of_attempt,
                model AS answer_model, response_model, provider, task_id, client_request_id, response_id, streamed AS answer_streamed,
                http_status AS answer_status, error_type AS answer_error, finish_reason, input_tokens, output_tokens, cache_read_tokens,
                cache_write_tokens, reasoning_tokens, usage_source AS answer_source, queue_ns, flags AS answer_flags,
                first_answer_ns, first_token_ns, last_token_ns
            FROM work_drafts
        ) AS d ON d.of_trace = r.trace_id AND d.of_root = r.root AND d.of_attempt = r.answer
    ),
    ended AS (
        SELECT
            *,
            if(answered_after >= 0, toUInt64(answered_after), NULL) AS ttft_ns,
            if(
                good > 0 AND output_tokens >= 2 AND last_token_ns >= first_token_ns,
                intDiv(toUInt64(last_token_ns - first_token_ns), output_tokens - 1),
                NULL
            ) AS tpot_ns,
            if(notEmpty(streamed_tokens), arraySum(streamed_tokens), toUInt64OrNull(fields['delivered_tokens'])) AS counted_tokens,
            multiIf(
                answering = 0 AND ifNull(http_status, 0) BETWEEN 400 AND 499, 'rejected',
                blocked, 'blocked',
                if(answering = 0, refused, good = 0 OR (refused AND NOT disconnected)), 'failed',
                disconnected, 'aborted',
                isNull(output_tokens), 'unmetered',
                ''
            ) AS ending,
            concat(toString(arrayCount(t -> t <= started_ns, slo_borders)), '\0') AS epoch
        FROM met
    ),
    delivered AS (
        SELECT
            *,
            multiIf(
                ending IN ('rejected', 'blocked', 'failed'), 'none',
                disconnected, if(counted_tokens = 0, 'none', 'partial'),
                answering = 0 OR isNull(closed_ns), 'unknown',
                arrayExists(x -> x.2 = 1, streams) OR (streamed = 0 AND status BETWEEN 200 AND 299), 'confirmed',
                'assumed'
            ) AS delivery,
            -- The most specific row: tenant and model, tenant, model, all.
            arrayFirst(n -> n > 0, [
                transform(concat(epoch, tenant, '\0', model), slo_rows.1, arrayEnumerate(slo_rows.1), 0),
                transform(concat(epoch, tenant, '\0'), slo_rows.1, arrayEnumerate(slo_rows.1), 0),
                transform(concat(epoch, '\0', model), slo_rows.1, arrayEnumerate(slo_rows.1), 0),
                transform(concat(epoch, '\0'), slo_rows.1, arrayEnumerate(slo_rows.1), 0)
            ]) AS slo
        FROM ended
    ),
    limited AS (
        SELECT
            *,
            transform(slo, arrayEnumerate(slo_rows.1), slo_rows.2, toInt64(-1)) AS ttft_limit_ns,
            transform(slo, arrayEnumerate(slo_rows.1), slo_rows.3, toInt64(-1)) AS tpot_limit_ns,
            transform(slo, arrayEnumerate(slo_rows.1), slo_rows.4, toInt64(-1)) AS e2e_limit_ns,
            multiIf(
                delivery = 'none', toUInt64(0),
                isNotNull(counted_tokens), counted_tokens,
                delivery IN ('confirmed', 'assumed'), output_tokens,
                NULL
            ) AS delivered_tokens
        FROM delivered
    ),
    answered AS (
        SELECT
            *,
            multiIf(
                ttft_limit_ns < 0 OR ending = 'rejected', NULL,
                isNotNull(ttft_ns), toUInt8(ttft_ns <= ttft_limit_ns),
                streamed = 1, toUInt8(0),
                toUInt8(e2e_ns <= ttft_limit_ns)
            ) AS slo_ttft,
            multiIf(
                tpot_limit_ns < 0 OR ending = 'rejected', NULL,
                isNotNull(tpot_ns), toUInt8(tpot_ns <= tpot_limit_ns),
                output_tokens <= 1, toUInt8(1),
                NULL
            ) AS slo_tpot,
            if(e2e_limit_ns < 0 OR ending = 'rejected', NULL, toUInt8(e2e_ns <= e2e_limit_ns)) AS slo_e2e
        FROM limited
    ),
    -- What of each stage's own time lies before the first token: the same lengths, cut there. Busy times divide as their stage does.
    parted AS (
        SELECT
            *,
            -- least and greatest pass over NULLs.
            if(
                isNull(closed_ns) OR (isNull(ttft_ns) AND isNull(first_token_ns)),
                NULL,
                least(started_ns + coalesce(toInt64(ttft_ns), greatest(assumeNotNull(first_token_ns) - started_ns, 0)), assumeNotNull(closed_ns))
            ) AS first_ns,
            arrayFilter(x -> x.2 < first_ns, if(isNull(first_ns), [], drawn)) AS early,
            arrayMap(x -> least(x.3, assumeNotNull(first_ns)), early) AS early_ends,
            arrayMap(rank -> arrayReduce('intervalLengthSumIf', early.2, early_ends, arrayMap(x -> x >= rank, early.1)), ranks) AS early_covered_ns,
            arrayMap(
                (here, further_in) -> here - further_in, early_covered_ns, arrayResize(arrayPopFront(early_covered_ns), length(early_covered_ns), 0)
            ) AS early_ns,
            arrayMap(
                x -> (x.1, x.2, intDiv(toInt128(x.3) * early_ns[indexOf(ranks, x.2)], greatest(own_ns[indexOf(ranks, x.2)], 1))), carved
            ) AS early_carved,
            -- How far each objective was missed, in millionths of it; -1: it was not.
            arrayMap(
                (missed, ns, limit_ns) -> if(missed, intDiv(toInt128(ns) * 1000000, greatest(limit_ns, 1)), toInt128(-1)),
                [ifNull(slo_ttft = 0, 0), ifNull(slo_tpot = 0, 0), ifNull(slo_e2e = 0, 0)],
                [coalesce(ttft_ns, e2e_ns, 0), coalesce(tpot_ns, 0), coalesce(e2e_ns, 0)],
                [ttft_limit_ns, tpot_limit_ns, e2e_limit_ns]
            ) AS overruns
        FROM answered
    )
SELECT
    toDateTime(intDiv(started_ns - started_ns % {window_ns:Int64}, 1000000000), 'UTC'),
    {run_id:UInt64},
    concat(lower(hex(trace_id)), '-', lower(hex(root))),
    tenant,
    multiIf(tenant_said = '', 'unknown', principal = 'platform', 'gateway', 'principal'),
    model,
    if(response_model = '', 'unknown', response_model),
    if(provider = '', 'unknown', provider),
    coalesce(nullIf(fields['task_id'], ''), task_id),
    coalesce(nullIf(fields['client_request_id'], ''), client_request_id),
    response_id,
    trace_id,
    root,
    fromUnixTimestamp64Nano(started_ns, 'UTC'),
    fromUnixTimestamp64Nano(closed_ns, 'UTC'),
    e2e_ns,
    ttft_ns,
    tpot_ns,
    queue_ns,
    streamed,
    status,
    error_type,
    finish_reason,
    length(failures),
    arrayCount(x -> x = 1, failures),
    input_tokens,
    output_tokens,
    input_tokens - coalesce(cache_read_tokens, 0) - coalesce(cache_write_tokens, 0),
    cache_read_tokens,
    cache_write_tokens,
    output_tokens - coalesce(reasoning_tokens, 0),
    reasoning_tokens,
    usage_source,
    multiIf(
        isNotNull(input_tokens) OR isNotNull(output_tokens), 'reported',
        outcome = 'aborted' AND (trace_id, root, answer) IN (SELECT trace_id, root, attempt FROM work_bounds), 'estimated',
        'unknown'
    ),
    generated_tokens,
    delivered_tokens,
    delivery,
    if(outcome = 'useful', coalesce(delivered_tokens, 0), 0),
    multiIf(ending != '', ending, slo_ttft = 0 OR slo_tpot = 0 OR slo_e2e = 0, 'late', 'useful') AS outcome,
    slo_ttft,
    slo_tpot,
    slo_e2e,
    if(
        isNull(closed_ns),
        map(),
        mapFromArrays(
            arrayMap(rank -> if(rank = {inference:UInt8}, 'other', {stages:Array(String)}[rank]), arrayPushBack(plain_ranks, {inference:UInt8})),
            arrayPushBack(
                arrayMap((rank, ns) -> ns - arraySum(x -> if(x.2 = rank, x.3, 0), carved) + arraySum(x -> if(x.1 = rank, x.3, 0), carved), plain_ranks, plain_ns),
                e2e_ns - if(empty(covered_ns), 0, covered_ns[1]) + own_ns[indexOf(ranks, {inference:UInt8})]
            )
        )
    ),
    mapFromArrays(
        arrayConcat(if(isNull(closed_ns), [], arrayMap(x -> {stages:Array(String)}[x.1], stages)), if(isNull(ttft_ns), [], ['ttft'])),
        arrayConcat(
            if(isNull(closed_ns), [], arrayMap(x -> {qualities:Array(String)}[x.2], stages)),
            if(isNull(ttft_ns), [], [if(notEmpty(streams), 'span', 'attribute')])
        )
    ),
    arraySort(arrayDistinct(arrayConcat(
        arrayFilter(f -> f IN ('foreign', 'sampled', 'clock_skew', 'replica_unlisted'), flags),
        answer_flags,
        if(outcome = 'aborted' AND unseen AND isNull(output_tokens), ['no_engine_span'], []),
        if((trace_id, root) IN (
            SELECT trace_id, root FROM work_nodes WHERE (trace_id, span_id) IN (SELECT trace_id, span_id FROM work_adoptions WHERE state = 'ambiguous')
        ), ['ambiguous_id'], []),
        if(sampled, ['sampled'], []),
        if(skewed, ['clock_skew'], []),
        if(tenant_said != '' AND NOT has(listed, tenant), ['unlisted'], [])
    ))),
    if(arrayMax(overruns) < 0, 'none', ['ttft', 'tpot', 'e2e'][indexOf(overruns, arrayMax(overruns))]),
    if(
        isNull(first_ns),
        map(),
        mapFromArrays(
            arrayMap(rank -> if(rank = {inference:UInt8}, 'other', {stages:Array(String)}[rank]), arrayPushBack(plain_ranks, {inference:UInt8})),
            arrayPushBack(
                arrayMap(
                    rank -> toUInt64(
                        early_ns[indexOf(ranks, rank)]
                        - arraySum(x -> if(x.2 = rank, x.3, 0), early_carved) + arraySum(x -> if(x.1 = rank, x.3, 0), early_carved)
                    ),
                    plain_ranks
                ),
                toUInt64(
                    assumeNotNull(first_ns) - started_ns - if(empty(early_covered_ns), 0, early_covered_ns[1]) + early_ns[indexOf(ranks, {inference:UInt8})]
                )
            )
        )
    )
FROM parted
