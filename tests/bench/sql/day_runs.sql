INSERT INTO runs (
    run_id, window_from, window_to, state, kind, method, useful_policy, config_hash, requests, attempts, pools_atoms, ledger_atoms,
    started_at, recorded_at
)
SELECT any(run_id), window_from, window_from + 900, 'published', 'closed', 'gpu-step-time-v1', 'useful-v1', {config_hash:String}, count(),
    count(), sum(atoms), sum(atoms), window_from + 1800, window_from + 1800
FROM ledger
GROUP BY window_from
