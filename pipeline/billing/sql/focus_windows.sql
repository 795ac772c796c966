-- Which windows of the month are billed, and which are still open; and where published windows are at all.
SELECT
    countIf(kind = 'closed' AND window_from >= {from:DateTime('UTC')} AND window_from < {to:DateTime('UTC')}) AS closed,
    countIf(kind = 'provisional' AND window_from >= {from:DateTime('UTC')} AND window_from < {to:DateTime('UTC')}) AS provisional,
    formatDateTime(min(window_from), '%Y-%m') AS first_month,
    formatDateTime(max(window_from), '%Y-%m') AS last_month,
    count() AS windows
FROM current_runs
