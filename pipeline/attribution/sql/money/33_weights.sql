-- By what the money of gateways, links and KV storage is divided. gateway: every attempt of a request that came through the platform counts
-- one. network: bytes that the attempt moved over such a link. kv_storage: byte-nanoseconds (twice) of its context while it held a replica:
-- input and the decode tokens done, a mean of begin and end, x KV bytes per token of its model; a model without known figures weighs nothing.
INSERT INTO work_weights
WITH
prices AS (
    SELECT toString(pool) AS pool, resource, toString(kind) AS kind, price_id, replicas, from_ns, to_ns
    FROM pool_prices
    WHERE config_hash = {config_hash:String} AND pool IN ('network', 'kv_storage', 'gateway') AND from_ns < {until_ns:Int64} AND to_ns > {from_ns:Int64}
),
asked AS (
    SELECT window_from, attempt_id, toString(replica) AS replica, tenant_source, toUnixTimestamp64Nano(started_at) AS started_ns
    FROM work_attempts
    WHERE window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC') AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
    LIMIT 1 BY attempt_id
),
moved AS (
    SELECT a.window_from AS window_from, a.attempt_id AS attempt_id, a.replica AS replica, a.started_ns AS started_ns, toString(m.link) AS link, m.bytes AS bytes
    FROM (SELECT attempt_id, link, sum(toInt128(bytes)) AS bytes FROM work_moved_bytes GROUP BY attempt_id, link) AS m
    INNER JOIN asked AS a ON m.attempt_id = a.attempt_id
),
kept AS (
    SELECT
        l.attempt_id AS attempt_id, toString(l.replica) AS replica, l.kv_bytes_per_token AS kv_bytes_per_token, l.context_tokens AS context_tokens,
        l.decode_tokens AS decode_tokens, l.decode_before AS decode_before, l.decode_total AS decode_total, l.prefill_to AS prefill_to,
        window_ns,
        greatest(l.live_from, window_ns) AS live_from,
        least(l.live_to, window_ns + {window_ns:Int64}) AS live_to
    FROM work_legs AS l
    ARRAY JOIN range(
        intDiv(l.live_from, {window_ns:Int64}) * {window_ns:Int64}, greatest(l.live_to - 1, l.live_from) + 1, {window_ns:Int64}
    ) AS window_ns
    WHERE l.kv_bytes_per_token > 0 AND l.live_to > l.live_from AND 'kv_storage' IN (SELECT pool FROM prices)
),
held AS (
    SELECT
        k.*, p.resource AS resource, p.price_id AS price_id, greatest(k.live_from, p.from_ns) AS a, least(k.live_to, p.to_ns) AS b,
        intDiv(toInt128(k.decode_tokens) * (k.decode_before + greatest(a, k.prefill_to) - k.prefill_to), greatest(k.decode_total, 1)) AS done_a,
        intDiv(toInt128(k.decode_tokens) * (k.decode_before + greatest(b, k.prefill_to) - k.prefill_to), greatest(k.decode_total, 1)) AS done_b
    FROM kept AS k
    CROSS JOIN prices AS p
    WHERE p.pool = 'kv_storage' AND a < b AND (empty(p.replicas) OR has(p.replicas, k.replica))
)
SELECT a.window_from, p.pool, p.resource, p.price_id, a.attempt_id, toInt128(1) AS amount
FROM asked AS a
CROSS JOIN prices AS p
WHERE p.pool = 'gateway' AND a.tenant_source != 'principal' AND a.started_ns >= p.from_ns AND a.started_ns < p.to_ns
UNION ALL
SELECT m.window_from, p.pool, p.resource, p.price_id, m.attempt_id, m.bytes AS amount
FROM moved AS m
CROSS JOIN prices AS p
WHERE p.pool = 'network' AND p.kind = m.link AND m.bytes > 0 AND m.started_ns >= p.from_ns AND m.started_ns < p.to_ns
    AND (empty(p.replicas) OR has(p.replicas, m.replica))
UNION ALL
SELECT
    toDateTime(intDiv(window_ns, 1000000000), 'UTC'), 'kv_storage', resource, price_id, attempt_id,
    sum(toInt128(kv_bytes_per_token) * (2 * toInt128(context_tokens) + done_a + done_b) * (b - a)) AS amount
FROM held
GROUP BY window_ns, resource, price_id, attempt_id
HAVING amount > 0
