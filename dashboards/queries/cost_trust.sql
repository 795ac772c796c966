SELECT check, value
FROM (
    SELECT
        toString(sum(c.difference_atoms)) AS difference,
        toString(count()) AS windows,
        toString(countIf(c.kind = 'provisional')) AS provisional,
        if(count() = 0, '–', toString(max(c.published_at))) AS published
    FROM current_runs AS c
    WHERE c.window_from >= $__fromTime AND c.window_from < $__toTime
) AS runs
CROSS JOIN (
    SELECT
        if(sum(w.requests) = 0, '–', concat(toString(round(100 * sumIf(w.requests, w.tenant = 'unknown') / sum(w.requests), 2)), ' %')) AS unknown_tenant,
        if(sum(w.useful_tokens) = 0, '–', concat(toString(round(100 * sum(w.delivered_assumed_tokens) / sum(w.delivered_tokens), 2)), ' %')) AS assumed,
        toString(sum(w.usage_unknown)) AS unknown_usage
    FROM tenant_windows AS w
    INNER JOIN current_runs AS c ON w.window_from = c.window_from AND w.run_id = c.run_id
    WHERE w.window_from >= $__fromTime AND w.window_from < $__toTime
) AS quality
CROSS JOIN (
    SELECT if(countIf(p.priced = 0) = 0, 'none', arrayStringConcat(arraySort(groupUniqArrayIf(10)(toString(p.resource), p.priced = 0)), ', ')) AS unpriced
    FROM pools AS p
    INNER JOIN current_runs AS c ON p.window_from = c.window_from AND p.run_id = c.run_id
    WHERE p.window_from >= $__fromTime AND p.window_from < $__toTime
) AS money
ARRAY JOIN
    ['pools minus ledger (atoms)', 'windows', 'of these provisional', 'last published (UTC)', 'requests of unknown tenants',
     'delivered tokens assumed, not confirmed', 'requests without usage', 'replicas without a price'] AS check,
    [difference, windows, provisional, published, unknown_tenant, assumed, unknown_usage, unpriced] AS value
