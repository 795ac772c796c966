-- What the ledger books on each tenant's attempts, whoever pays for it.
SELECT toString(l.tenant) AS tenant, sum(l.atoms) AS atoms
FROM ledger AS l
INNER JOIN current_runs AS c ON l.window_from = c.window_from AND l.run_id = c.run_id
WHERE l.window_from >= {from:DateTime('UTC')} AND l.window_from < {to:DateTime('UTC')} AND l.pool = 'gpu' AND l.attempt_id != ''
GROUP BY tenant
