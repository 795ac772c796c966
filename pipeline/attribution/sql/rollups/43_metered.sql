-- Metered tokens per outcome and bucket. Attempts are the unit, so that a failed or superseded attempt is rated by its own outcome.
-- Where a stack does not tell the split, input counts as uncached and output as text.
SELECT
    toUnixTimestamp(a.window_from) * 1000000000 AS window_from_ns,
    toString(a.tenant) AS tenant,
    toString(a.model) AS model,
    toString(a.outcome) AS outcome,
    bucket,
    sum(assumeNotNull(amount_tokens)) AS tokens
FROM (
    SELECT
        *,
        toInt128(ifNull(input_cache_read_tokens, 0)) + toInt128(ifNull(input_cache_write_tokens, 0)) AS cached,
        toInt128(ifNull(output_reasoning_tokens, 0)) AS reasoned
    FROM attempts
    WHERE run_id = {run_id:UInt64}
        AND window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC')
        AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
) AS a
ARRAY JOIN
    arrayConcat(
        ['input_uncached', 'input_cache_read', 'input_cache_write', 'output_text', 'output_reasoning'],
        arrayMap(k -> toString(k), mapKeys(a.other_tokens))
    ) AS bucket,
    arrayConcat(
        [
            coalesce(a.input_uncached_tokens, toUInt64(greatest(toInt128(0), toInt128(a.input_tokens) - a.cached))),
            a.input_cache_read_tokens,
            a.input_cache_write_tokens,
            coalesce(a.output_text_tokens, toUInt64(greatest(toInt128(0), toInt128(a.output_tokens) - a.reasoned))),
            a.output_reasoning_tokens
        ],
        mapValues(a.other_tokens)
    ) AS amount_tokens
WHERE amount_tokens > 0
GROUP BY window_from_ns, tenant, model, outcome, bucket
