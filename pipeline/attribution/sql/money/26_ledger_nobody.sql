-- Money that is no attempt's: slots in which nobody has a weight, the platform's own work, and idle time (which scheduling could fill).
INSERT INTO work_ledger
SELECT window_from, {run_id:UInt64}, 'gpu', replica, '', '', 'unattributed', 'other', 'platform', 'none', '', '', sum(busy_ns) AS ns, sum(atoms) AS money
FROM work_shares
WHERE attempt_id = ''
GROUP BY window_from, replica
HAVING ns != 0 OR money != 0
UNION ALL
SELECT window_from, {run_id:UInt64}, pool, resource, '', '', 'platform_waste', 'other', 'platform', 'none', '', '', 0, sum(platform_atoms) AS money
FROM work_pools
GROUP BY window_from, pool, resource
HAVING money != 0
UNION ALL
SELECT window_from, {run_id:UInt64}, pool, resource, '', '', 'idle', 'schedule', 'platform', 'none', '', '', 0, sum(idle_atoms) AS money
FROM work_pools
GROUP BY window_from, pool, resource
HAVING money != 0
