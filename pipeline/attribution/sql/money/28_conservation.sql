-- The ledger against the pools, to the atom and the nanosecond, per window, pool and resource. Returns only what differs.
SELECT
    window_from,
    pool,
    resource,
    sum(pool_atoms) AS pools_atoms,
    sum(entry_atoms) AS ledger_atoms,
    sum(pool_ns) AS pools_busy_ns,
    sum(entry_ns) AS ledger_busy_ns
FROM (
    SELECT window_from, pool, resource, atoms AS pool_atoms, toInt128(0) AS entry_atoms, toInt128(busy_ns) AS pool_ns, toInt128(0) AS entry_ns,
           toUInt8(capacity_ns != toInt128(busy_ns) + platform_ns + idle_ns OR atoms != busy_atoms + platform_atoms + idle_atoms
                   OR busy_atoms < 0 OR platform_atoms < 0 OR idle_atoms < 0) AS broken
    FROM work_pools
    UNION ALL
    SELECT window_from, pool, resource, toInt128(0), atoms, toInt128(0), toInt128(busy_ns), toUInt8(atoms < 0)
    FROM work_ledger
)
GROUP BY window_from, pool, resource
HAVING pools_atoms != ledger_atoms OR pools_busy_ns != ledger_busy_ns OR max(broken) = 1
ORDER BY window_from, pool, resource
LIMIT 10
