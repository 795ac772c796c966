-- Billable tokens of a month per tenant, model, bucket, UTC day and price. Only closed windows: provisional ones are never billed.
SELECT
    toString(r.tenant) AS tenant,
    toString(r.model) AS model,
    toString(r.bucket) AS bucket,
    toString(toDate(r.window_from)) AS day,
    toString(r.sku) AS sku,
    r.price_version AS price_version,
    toString(r.currency) AS currency,
    r.usd_per_million_tokens AS per_million,
    r.list_usd_per_million_tokens AS list_per_million,
    sum(r.billable_tokens) AS tokens,
    sum(r.useful_tokens) AS useful_tokens
FROM rated_windows AS r
INNER JOIN current_runs AS c ON r.window_from = c.window_from AND r.run_id = c.run_id
WHERE r.window_from >= {from:DateTime('UTC')} AND r.window_from < {to:DateTime('UTC')}
    AND c.window_from >= {from:DateTime('UTC')} AND c.window_from < {to:DateTime('UTC')}
    AND c.kind = 'closed' AND r.billable_tokens > 0
GROUP BY tenant, model, bucket, day, sku, price_version, currency, per_million, list_per_million
ORDER BY tenant, model, bucket, day, price_version, per_million, list_per_million
