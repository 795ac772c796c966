-- Engines count a prompt, cached tokens too, when they prefilled it, and an answer while they make it: a prompt belongs to the window of the
-- first token, an answer is spread evenly from there to the last one. Attempts of neighbouring windows that ran in these are in work_attempts.
INSERT INTO counted_tokens (window_from, run_id, replica, quantity, counted, accounted)
WITH
    counters AS (
        SELECT window_from, toString(replica) AS replica, toString(quantity) AS quantity, toUInt64(round(sum(value))) AS counted
        FROM work_measures
        WHERE quantity IN ('prompt_tokens', 'generation_tokens') AND replica != '' AND covered_ns * 10 >= {window_ns:Int64} * 9
        GROUP BY window_from, replica, quantity
    ),
    ran AS (
        SELECT
            -- Where prefill and decode ran apart, each counted its own.
            if(empty(legs), toString(replica), toString(legs[1].1)) AS prefilled_on,
            if(empty(legs), toString(replica), toString(legs[-1].1)) AS decoded_on,
            toUnixTimestamp64Nano(coalesce(first_token_at, started_at)) AS first_ns,
            greatest(first_ns, toUnixTimestamp64Nano(coalesce(last_token_at, ended_at, first_token_at, started_at))) AS last_ns,
            input_tokens,
            coalesce(generated_tokens, output_tokens) AS output
        FROM work_attempts
        WHERE replica != '' OR notEmpty(legs)
    ),
    shown AS (
        SELECT prefilled_on AS replica, 'prompt_tokens' AS quantity, intDiv(first_ns, {window_ns:Int64}) AS w, toUInt64(assumeNotNull(input_tokens)) AS tokens
        FROM ran
        WHERE isNotNull(input_tokens)
        UNION ALL
        SELECT
            decoded_on,
            'generation_tokens',
            window_no AS w,
            if(
                first_ns = last_ns,
                made,
                toUInt64(intDiv(toInt128(made) * (least(last_ns, (w + 1) * {window_ns:Int64}) - first_ns), last_ns - first_ns)
                    - intDiv(toInt128(made) * (greatest(first_ns, w * {window_ns:Int64}) - first_ns), last_ns - first_ns))
            )
        FROM (SELECT *, toUInt64(assumeNotNull(output)) AS made FROM ran WHERE isNotNull(output))
        ARRAY JOIN range(intDiv(first_ns, {window_ns:Int64}), intDiv(greatest(last_ns - 1, first_ns), {window_ns:Int64}) + 1) AS window_no
    ),
    accounts AS (
        SELECT toDateTime(intDiv(w * {window_ns:Int64}, 1000000000), 'UTC') AS window_from, replica, quantity, sum(tokens) AS accounted
        FROM shown
        GROUP BY window_from, replica, quantity
    )
SELECT c.window_from, {run_id:UInt64}, c.replica, c.quantity, c.counted, a.accounted
FROM counters AS c
LEFT JOIN accounts AS a ON a.window_from = c.window_from AND a.replica = c.replica AND a.quantity = c.quantity
WHERE c.window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC') AND c.window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
SETTINGS join_use_nulls = 0
