-- Tasks (agent runs, conversations) of a range: requests that name the same task, in their order. Money may lie in windows after its request's.
WITH published AS (
    SELECT r.window_from AS window_from, argMax(r.run_id, (r.recorded_at, r.run_id)) AS run_id
    FROM runs AS r
    WHERE r.state = 'published' AND r.recorded_at <= {as_of:DateTime64(6, 'UTC')}
        AND r.window_from >= {from:DateTime('UTC')} AND r.window_from < {to:DateTime('UTC')} + toIntervalSecond({after_s:UInt32})
    GROUP BY r.window_from
),
paid AS (
    SELECT l.request_id AS request_id, sum(l.atoms) AS atoms
    FROM ledger AS l
    WHERE (l.window_from, l.run_id) IN published AND l.request_id != ''
    GROUP BY l.request_id
),
worked AS (
    SELECT a.request_id AS request_id, sum(coalesce(a.input_tokens, 0) + coalesce(a.generated_tokens, a.output_tokens, 0)) AS tokens
    FROM attempts AS a
    WHERE (a.window_from, a.run_id) IN published AND a.window_from < {to:DateTime('UTC')}
    GROUP BY a.request_id
),
told AS (
    SELECT
        toString(r.tenant) AS tenant,
        assumeNotNull(r.task_id) AS task,
        arraySort(groupArray((
            toUnixTimestamp64Nano(r.started_at),
            r.request_id,
            coalesce(toUnixTimestamp64Nano(r.ended_at), toUnixTimestamp64Nano(r.started_at)),
            coalesce(r.input_tokens, 0),
            coalesce(r.output_tokens, 0),
            coalesce(r.input_cache_read_tokens, 0),
            toUInt8(r.outcome IN ('useful', 'late')),
            coalesce(p.atoms, 0),
            coalesce(w.tokens, 0),
            toUInt8(isNull(r.input_tokens) OR isNull(r.output_tokens))
        ))) AS calls
    FROM requests AS r
    LEFT JOIN paid AS p ON p.request_id = r.request_id
    LEFT JOIN worked AS w ON w.request_id = r.request_id
    WHERE (r.window_from, r.run_id) IN published AND r.window_from < {to:DateTime('UTC')}
        AND r.task_id != '' AND ({tenant:String} = '' OR r.tenant = {tenant:String})
    GROUP BY tenant, task
)
SELECT
    tenant,
    task,
    length(calls) AS requests,
    calls[-1].7 AS finished,
    arrayMax(calls.3) - calls[1].1 AS duration_ns,
    -- Between calls nobody generates: tools, the user, the agent itself.
    arraySum((call, before) -> greatest(call.1 - before, 0), arrayPopFront(calls), arrayPopBack(arrayMap(n -> arrayMax(arraySlice(calls.3, 1, n)), arrayEnumerate(calls)))) AS between_ns,
    arraySum(calls.8) AS atoms,
    arraySum(calls.9) AS tokens,
    arraySum(calls.10) AS untold,
    if(finished, calls[-1].8, NULL) AS answer_atoms,
    if(finished, calls[-1].4 + calls[-1].5, NULL) AS answer_tokens,
    -- What a call sends again is at most the context that the call before it ended with; the cache had some of it.
    arraySum((call, before) -> least(call.4, before.4 + before.5), arrayPopFront(calls), arrayPopBack(calls)) AS resent_tokens,
    arraySum(
        (call, before) -> greatest(toInt64(least(call.4, before.4 + before.5)) - toInt64(call.6), 0), arrayPopFront(calls), arrayPopBack(calls)
    ) AS reloaded_tokens,
    -- The same sizes as the call before: most likely the same call again.
    arrayCount((call, before) -> call.4 = before.4 AND call.5 = before.5 AND call.10 = 0, arrayPopFront(calls), arrayPopBack(calls)) AS repeats
FROM told
ORDER BY atoms DESC, tenant, task
