-- Shares of attempts by class. Recomputed and rejected draft tokens take their part of all tokens that the attempt worked on, by largest
-- remainder in this order; the rest has the attempt's outcome. Cause decides the payer: preemption, drafts that were thrown away, retries
-- and crashes are the platform's, an attempt that failed on the client's own error (4xx but 429) is the tenant's.
INSERT INTO work_ledger
WITH known AS (
    SELECT
        attempt_id,
        any(tenant) AS tenant,
        any(model) AS model,
        any(request_id) AS request_id,
        any(if(outcome = 'rejected', 'failed', toString(outcome))) AS outcome,
        any(coalesce(http_status, 0) BETWEEN 400 AND 499 AND coalesce(http_status, 0) != 429) AS own_fault,
        any(toInt128(least(coalesce(recompute_tokens, 0), 16777216))) AS recompute_tokens,
        any(toInt128(least(coalesce(rejected_draft_tokens, 0), 16777216))) AS rejected_draft_tokens,
        any(greatest(
            toInt128(least(coalesce(input_tokens, 0), 16777216)) - toInt128(least(coalesce(input_cache_read_tokens, 0), 16777216)), toInt128(0)
        ) + toInt128(least(coalesce(generated_tokens, output_tokens, 0), 16777216))) AS worked_tokens
    FROM work_attempts
    GROUP BY attempt_id
),
told AS (
    SELECT
        s.window_from AS window_from, s.replica AS replica, s.attempt_id AS attempt_id, s.tier AS tier,
        k.tenant AS tenant, k.model AS model, k.request_id AS request_id, k.own_fault AS own_fault,
        s.atoms AS share_atoms,
        toInt128(s.busy_ns) AS share_ns,
        arrayFilter(c -> c.2 > 0, [('recompute', k.recompute_tokens), ('rejected_draft', k.rejected_draft_tokens), (k.outcome, k.worked_tokens)]) AS by_tokens,
        if(empty(by_tokens), [(k.outcome, toInt128(1))], by_tokens) AS classes
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
    'gpu' AS pool,
    replica AS resource,
    tenant,
    model,
    classes[n].1 AS class,
    if(class = 'recompute', 'kv_cache', 'other') AS stage,
    if(class IN ('recompute', 'rejected_draft', 'superseded') OR (class = 'failed' AND NOT own_fault), 'platform', 'tenant') AS payer,
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
