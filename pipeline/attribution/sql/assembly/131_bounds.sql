-- How many tokens attempts without a count can have made: what the client asked for at most (of the call, else of the request), and one
-- for each time that the quickest replica of the model reads its weights while the attempt lasted. The smaller one, where either is known.
INSERT INTO work_bounds (trace_id, root, attempt, most_tokens)
WITH
    uncounted AS (SELECT trace_id, root, attempt, model, started_ns, ended_ns FROM work_drafts WHERE isNull(output_tokens)),
    (
        SELECT arraySort(groupArray((model, step_ns)))
        FROM (
            -- By every name of the model.
            SELECT n.model AS model, greatest(toUInt64(min(intDiv(toUInt128(n.weight_bytes) * 1000000000, i.bytes_per_second))), 1) AS step_ns
            FROM (SELECT * FROM model_constants WHERE config_hash = {config_hash:String} AND weight_bytes > 0) AS n
            INNER JOIN (SELECT * FROM model_constants WHERE config_hash = {config_hash:String}) AS o
                ON o.precision = n.precision AND o.weight_bytes = n.weight_bytes AND o.flop_per_token = n.flop_per_token
                    AND o.kv_bytes_per_token = n.kv_bytes_per_token
            INNER JOIN (
                SELECT model, precision, bytes_per_second
                FROM inventory
                WHERE config_hash = {config_hash:String} AND bytes_per_second > 0 AND from_ns < {read_to_ns:Int64} AND to_ns > {read_from_ns:Int64}
            ) AS i ON i.model = o.model AND i.precision = o.precision
            GROUP BY n.model
        )
    ) AS steps,
    -- By attempt, or by request where no call tells it.
    asked AS (
        SELECT f.trace_id AS trace_id, if(c.attempt = toFixedString('', 8), f.span_id, c.attempt) AS of, min(f.told) AS limit_tokens
        FROM (
            SELECT trace_id, span_id, toUInt64OrZero(fields['token_limit']) AS told
            FROM work_facts
            WHERE role IN ('request', 'inference') AND trace_id IN (SELECT trace_id FROM uncounted)
        ) AS f
        LEFT ANY JOIN (SELECT trace_id, span_id, attempt FROM work_calls) AS c ON c.trace_id = f.trace_id AND c.span_id = f.span_id
        WHERE f.told > 0
        GROUP BY trace_id, of
    )
SELECT trace_id, root, attempt, arrayMin(known)
FROM (
    SELECT
        u.trace_id AS trace_id,
        u.root AS root,
        u.attempt AS attempt,
        transform(u.model, steps.1, steps.2, toUInt64(0)) AS step_ns,
        if(step_ns > 0 AND ifNull(u.ended_ns >= u.started_ns, 0), intDiv(toUInt64(assumeNotNull(u.ended_ns) - u.started_ns), step_ns) + 1, 0) AS possible,
        arrayFilter(x -> x > 0, [if(a.limit_tokens > 0, a.limit_tokens, r.limit_tokens), possible]) AS known
    FROM uncounted AS u
    LEFT ANY JOIN asked AS a ON a.trace_id = u.trace_id AND a.of = u.attempt
    LEFT ANY JOIN asked AS r ON r.trace_id = u.trace_id AND r.of = u.root
)
WHERE notEmpty(known)
