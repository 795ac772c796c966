-- Over all published windows: what the pools cost, minus every atom that the rollups hold.
SELECT
    (SELECT sum(p.atoms) FROM pools AS p INNER JOIN current_runs AS c ON p.window_from = c.window_from AND p.run_id = c.run_id)
    - (SELECT sum(t.atoms) FROM tenant_windows AS t INNER JOIN current_runs AS c ON t.window_from = c.window_from AND t.run_id = c.run_id)
    - (SELECT sum(u.atoms) FROM unallocated_windows AS u INNER JOIN current_runs AS c ON u.window_from = c.window_from AND u.run_id = c.run_id)
        AS difference_atoms
