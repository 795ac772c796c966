-- Runs before 41_tenant_windows, which shares these atoms out. Together with tenant_windows.atoms every atom of the ledger, once.
INSERT INTO unallocated_windows (window_from, run_id, pool, class, busy_ns, atoms)
SELECT l.window_from, l.run_id, toString(l.pool), toString(l.class), sum(l.busy_ns), sum(l.atoms)
FROM ledger AS l
WHERE l.run_id = {run_id:UInt64}
    AND l.window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC')
    AND l.window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
    AND NOT (l.tenant != '' AND l.payer = 'tenant' AND l.class NOT IN ('unattributed', 'platform_waste', 'idle', 'overhead'))
GROUP BY l.window_from, l.run_id, l.pool, l.class
