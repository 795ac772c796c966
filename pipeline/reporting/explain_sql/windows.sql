-- Which windows of a period are published as known on a date.
SELECT
    count() AS windows,
    countIf(kind = 'provisional') AS provisional,
    (
        SELECT arraySort(groupUniqArrayIf(toString(p.currency), p.currency != '')) FROM pools AS p
        WHERE p.window_from >= {from:DateTime('UTC')} AND p.window_from < {to:DateTime('UTC')}
    ) AS currencies
FROM (
    SELECT window_from, argMax(kind, (recorded_at, run_id)) AS kind FROM runs
    WHERE state = 'published' AND recorded_at <= {as_of:DateTime64(6, 'UTC')}
        AND window_from >= {from:DateTime('UTC')} AND window_from < {to:DateTime('UTC')}
    GROUP BY window_from
)
