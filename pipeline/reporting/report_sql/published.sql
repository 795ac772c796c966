-- The windows that touch the range, each with the newest run recorded by as_of, and where published windows are at all.
SELECT
    count() AS windows,
    countIf(newest.kind = 'provisional') AS provisional,
    min(window_from) AS first_from,
    max(newest.window_to) AS last_to,
    argMax(newest.config_hash, window_from) AS config_hash,
    arraySort(groupUniqArray(newest.method)) AS methods,
    arraySort(groupUniqArray(newest.useful_policy)) AS useful_policies,
    max(last_recorded_at) AS recorded_at
FROM (
    SELECT
        r.window_from AS window_from,
        argMax((r.window_to, toString(r.kind), r.config_hash, toString(r.method), toString(r.useful_policy))::Tuple(
            window_to DateTime('UTC'), kind String, config_hash String, method String, useful_policy String), (r.recorded_at, r.run_id)) AS newest,
        max(r.recorded_at) AS last_recorded_at
    FROM runs AS r
    WHERE r.state = 'published' AND r.recorded_at <= {as_of:DateTime64(6, 'UTC')}
        AND r.window_from < {to:DateTime('UTC')} AND r.window_to > {from:DateTime('UTC')}
    GROUP BY r.window_from
)
