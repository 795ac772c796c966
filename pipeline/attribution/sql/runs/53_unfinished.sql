-- Runs that began and neither published, found nothing changed, nor said why they failed: their process died.
SELECT
    r.run_id AS run_id,
    min(r.window_from) AS window_from,
    max(r.window_to) AS window_to,
    any(r.kind) AS kind,
    any(r.config_hash) AS config_hash,
    min(r.started_at) AS started_at
FROM runs AS r
GROUP BY r.run_id
HAVING countIf(r.state != 'started') = 0
ORDER BY run_id
