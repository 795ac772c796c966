-- Money that is no attempt's: busy slots and pools in which nobody has a weight, overhead, and the platform's own work.
INSERT INTO work_ledger
SELECT window_from, {run_id:UInt64}, pool, resource, '', '', 'unattributed', 'other', 'platform', 'none', '', '', sum(busy_ns) AS ns, sum(atoms) AS money
FROM work_shares
WHERE attempt_id = ''
GROUP BY window_from, pool, resource
HAVING ns != 0 OR money != 0
UNION ALL
SELECT
    window_from, {run_id:UInt64}, pool, resource, '', '', if(pool = 'overhead', 'overhead', 'platform_waste'), 'other', 'platform', 'none', '', '', 0,
    sum(platform_atoms) AS money
FROM work_pools
GROUP BY window_from, pool, resource
HAVING money != 0
