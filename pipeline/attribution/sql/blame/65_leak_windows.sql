INSERT INTO leak_windows (window_from, run_id, pool, resource, tenant, model, class, stage, payer, busy_ns, atoms)
SELECT window_from, {run_id:UInt64}, toString(pool), resource, tenant, model, toString(class), toString(stage), toString(payer), sum(busy_ns), sum(atoms)
FROM ledger
WHERE run_id = {run_id:UInt64}
    AND window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC') AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
GROUP BY window_from, pool, resource, tenant, model, class, stage, payer
