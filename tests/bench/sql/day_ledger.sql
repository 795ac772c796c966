-- A made-up but whole cost book: each attempt some atoms, each window as many idle ones on top.
INSERT INTO ledger (window_from, run_id, pool, resource, tenant, model, class, stage, payer, tier, request_id, attempt_id, busy_ns, atoms)
SELECT
    window_from, run_id, 'gpu', replica, tenant, model, toString(outcome), 'other', 'tenant', 'B', request_id, attempt_id,
    toUInt64(1000000 + sipHash64(attempt_id) % 1000000000) AS busy, toInt128(busy) * 3
FROM attempts
WHERE run_id = {run_id:UInt64}
UNION ALL
SELECT window_from, any(run_id), 'gpu', replica, '', '', 'idle', 'schedule', 'platform', 'none', '', '', 0, toInt128(count()) * 1000000000
FROM attempts
WHERE run_id = {run_id:UInt64}
GROUP BY window_from, replica
