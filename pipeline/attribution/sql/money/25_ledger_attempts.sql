-- Shares of attempts by class and stage (docs/attribution.md). What was wasted inside an attempt takes its part by what it adds to the rough
-- weight of tier C, in this order, by largest remainder: tokens made after the client had left, tokens prefilled again after a preemption,
-- draft tokens thrown away, prefix tokens that another replica had, prefix tokens that the router believed on this one; the rest has the
-- attempt's outcome. Cause decides the payer: preemption, drafts, routing, retries and crashes are the platform's, a client that left
-- and an error of the client's own (4xx but 429) are the tenant's. Where a count is not told its class is empty.
INSERT INTO work_ledger
WITH facts AS (
    SELECT
        attempt_id, tenant, model, request_id,
        if(outcome = 'rejected', 'failed', toString(outcome)) AS outcome,
        coalesce(http_status, 0) BETWEEN 400 AND 499 AND coalesce(http_status, 0) != 429 AS own_fault,
        toInt128(least(coalesce(recompute_tokens, 0), 16777216)) AS again,
        toInt128(least(coalesce(rejected_draft_tokens, 0), 16777216)) AS drafts,
        toInt128(least(coalesce(input_cache_read_tokens, 0), 16777216)) AS cached,
        greatest(toInt128(least(coalesce(input_tokens, 0), 16777216)) - cached, 0) AS prefilled,
        toInt128(least(coalesce(generated_tokens, output_tokens, 0), 16777216)) AS produced,
        if(outcome = 'aborted' AND isNotNull(delivered_tokens), greatest(produced - toInt128(assumeNotNull(delivered_tokens)), 0), 0) AS unseen,
        if(
            isNotNull(best_hit_tokens) AND isNotNull(expected_hit_tokens),
            least(greatest(toInt128(assumeNotNull(best_hit_tokens)) - assumeNotNull(expected_hit_tokens), 0), prefilled), 0
        ) AS missed,
        if(
            isNotNull(expected_hit_tokens) AND isNotNull(input_cache_read_tokens),
            least(greatest(toInt128(assumeNotNull(expected_hit_tokens)) - cached, 0), prefilled - missed), 0
        ) AS stale,
        10080 * unseen + 399 * prefilled * unseen + 325 * unseen * (2 * produced - unseen) AS unseen_weight,
        arrayFilter(
            c -> c.2 > 0,
            [
                ('overgenerated', unseen_weight),
                ('recompute', 21000 * again),
                ('rejected_draft', 21000 * drafts),
                ('affinity_miss', 21000 * missed),
                ('stale_index', 21000 * stale),
                (
                    outcome,
                    21000 * (prefilled - missed - stale) + 10080 * produced + 399 * prefilled * produced + 325 * produced * produced + 114600
                        - unseen_weight
                )
            ]
        ) AS classes,
        arraySort(arrayMap(l -> (l.last_at, toString(l.phase)), arrayFilter(l -> l.phase IN ('prefill', 'decode'), legs))) AS phases,
        multiIf(
            outcome = 'late', 'late',
            outcome NOT IN ('aborted', 'failed', 'superseded'), 'other',
            notEmpty(phases), arrayLast(p -> p.1 = phases[-1].1, arraySort(p -> (p.1, p.2 = 'decode'), phases)).2,
            isNotNull(first_token_at) OR isNotNull(last_token_at) OR produced > 0, 'decode',
            isNotNull(first_scheduled_at), 'prefill',
            'other'
        ) AS ended_stage
    FROM work_attempts
    LIMIT 1 BY attempt_id
),
known AS (
    SELECT f.*, if(f.ended_stage = 'late', if(b.stage = '', 'other', toString(b.stage)), f.ended_stage) AS outcome_stage
    FROM facts AS f
    LEFT ANY JOIN (SELECT request_id AS late_id, stage FROM work_blames WHERE cause = 'slo') AS b ON b.late_id = f.request_id
),
told AS (
    SELECT
        s.window_from AS window_from, s.pool AS pool, s.resource AS resource, s.attempt_id AS attempt_id, s.tier AS tier,
        k.tenant AS tenant, k.model AS model, k.request_id AS request_id, k.own_fault AS own_fault, k.outcome_stage AS outcome_stage,
        s.atoms AS share_atoms,
        toInt128(s.busy_ns) AS share_ns,
        k.classes AS classes
    FROM work_shares AS s
    INNER JOIN known AS k ON s.attempt_id = k.attempt_id
    WHERE s.attempt_id != ''
),
weighed AS (
    SELECT *, arrayMap(c -> c.2, classes) AS weights, arrayReduce('sum', arrayMap(c -> c.2, classes)) AS total FROM told
),
floored AS (
    SELECT
        *,
        arrayMap(w -> intDiv(share_atoms * w, total), weights) AS whole_atoms,
        arrayMap(w -> intDiv(share_ns * w, total), weights) AS whole_ns
    FROM weighed
),
divided AS (
    SELECT
        *,
        arrayMap((w, x) -> share_atoms * w - x * total, weights, whole_atoms) AS remainder_atoms,
        arrayMap((w, x) -> share_ns * w - x * total, weights, whole_ns) AS remainder_ns,
        share_atoms - arrayReduce('sum', whole_atoms) AS missing_atoms,
        share_ns - arrayReduce('sum', whole_ns) AS missing_ns
    FROM floored
)
SELECT
    window_from,
    {run_id:UInt64} AS run_id,
    pool,
    resource,
    tenant,
    model,
    classes[n].1 AS class,
    multiIf(
        class = 'recompute', 'kv_cache',
        class IN ('affinity_miss', 'stale_index'), 'route',
        class IN ('late', 'aborted', 'failed', 'superseded'), outcome_stage,
        'other'
    ) AS stage,
    if(class IN ('recompute', 'rejected_draft', 'affinity_miss', 'stale_index', 'superseded') OR (class = 'failed' AND NOT own_fault), 'platform', 'tenant') AS payer,
    tier,
    request_id,
    attempt_id,
    toUInt64(whole_ns[n] + if(
        arrayCount((r, i) -> r > remainder_ns[n] OR (r = remainder_ns[n] AND i < n), remainder_ns, arrayEnumerate(remainder_ns)) < missing_ns, 1, 0
    )) AS busy_ns,
    whole_atoms[n] + if(
        arrayCount((r, i) -> r > remainder_atoms[n] OR (r = remainder_atoms[n] AND i < n), remainder_atoms, arrayEnumerate(remainder_atoms))
        < missing_atoms, 1, 0
    ) AS atoms
FROM divided
ARRAY JOIN arrayEnumerate(classes) AS n
