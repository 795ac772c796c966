SELECT count() AS windows, min(window_from) AS first_from, max(window_to) AS last_to
FROM runs
WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')}
