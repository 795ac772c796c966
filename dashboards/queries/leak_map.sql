-- Class x stage. A cell in which nothing was lost is empty.
SELECT
    l.class AS class,
    sum(l.atoms) / 1e12 AS cost,
    nullIf(sumIf(l.atoms, l.stage = 'gateway') / 1e12, 0) AS gateway,
    nullIf(sumIf(l.atoms, l.stage = 'auth') / 1e12, 0) AS auth,
    nullIf(sumIf(l.atoms, l.stage = 'tokenize') / 1e12, 0) AS tokenize,
    nullIf(sumIf(l.atoms, l.stage = 'route') / 1e12, 0) AS route,
    nullIf(sumIf(l.atoms, l.stage = 'schedule') / 1e12, 0) AS schedule,
    nullIf(sumIf(l.atoms, l.stage = 'kv_cache') / 1e12, 0) AS kv_cache,
    nullIf(sumIf(l.atoms, l.stage = 'prefill') / 1e12, 0) AS prefill,
    nullIf(sumIf(l.atoms, l.stage = 'decode') / 1e12, 0) AS decode,
    nullIf(sumIf(l.atoms, l.stage = 'kernel') / 1e12, 0) AS kernel,
    nullIf(sumIf(l.atoms, l.stage = 'hbm') / 1e12, 0) AS hbm,
    nullIf(sumIf(l.atoms, l.stage = 'nvlink') / 1e12, 0) AS nvlink,
    nullIf(sumIf(l.atoms, l.stage = 'switch') / 1e12, 0) AS switch,
    nullIf(sumIf(l.atoms, l.stage = 'nic') / 1e12, 0) AS nic,
    nullIf(sumIf(l.atoms, l.stage = 'stream') / 1e12, 0) AS stream,
    nullIf(sumIf(l.atoms, l.stage = 'settle') / 1e12, 0) AS settle,
    nullIf(sumIf(l.atoms, l.stage = 'other') / 1e12, 0) AS other
FROM leak_windows AS l
INNER JOIN current_runs AS c ON l.window_from = c.window_from AND l.run_id = c.run_id
WHERE l.window_from >= $__fromTime AND l.window_from < $__toTime
    AND $__conditionalAll(l.tenant IN (${tenant:singlequote}), $tenant)
    AND $__conditionalAll(l.model IN (${model:singlequote}), $model)
    AND l.class != 'useful'
GROUP BY class
HAVING sum(l.atoms) != 0
ORDER BY cost DESC, class
