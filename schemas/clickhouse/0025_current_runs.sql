-- Per window the run that readers see: the newest published one. Tenants read it too, so it holds no sum over all of them.
CREATE VIEW IF NOT EXISTS current_runs AS
SELECT
    r.window_from AS window_from,
    argMax(r.run_id, (r.recorded_at, r.run_id)) AS run_id,
    argMax(r.window_to, (r.recorded_at, r.run_id)) AS window_to,
    argMax(r.kind, (r.recorded_at, r.run_id)) AS kind,
    argMax(r.config_hash, (r.recorded_at, r.run_id)) AS config_hash,
    argMax(r.method, (r.recorded_at, r.run_id)) AS method,
    argMax(r.useful_policy, (r.recorded_at, r.run_id)) AS useful_policy,
    argMax(r.content_hash, (r.recorded_at, r.run_id)) AS content_hash,
    argMax(r.pools_atoms - r.ledger_atoms, (r.recorded_at, r.run_id)) AS difference_atoms,
    max(r.recorded_at) AS published_at
FROM runs AS r
WHERE r.state = 'published'
GROUP BY r.window_from
