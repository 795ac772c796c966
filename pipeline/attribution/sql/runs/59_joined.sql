-- May a span above the watermark of a window's newest run join, by its ids, a request that touches the window, or be joined by one? The two
-- must overlap (give or take `skew_ns`), so one of them lies across the window's border. Like 59_reached it may say yes too often.
WITH
    mark AS (
        SELECT argMax(watermark, (recorded_at, run_id)) AS watermark
        FROM runs
        WHERE state IN ('published', 'unchanged') AND window_from = toDateTime(intDiv({window_from_ns:Int64}, 1000000000), 'UTC')
    ),
    (
        SELECT groupUniqArrayArray(field.keys)
        FROM profile_rules
        ARRAY JOIN fields AS field
        WHERE config_hash = {config_hash:String} AND field.field IN ('response_id', 'client_request_id', 'call_id', 'join_key')
    ) AS id_keys,
    attributes -> arrayFilter(id -> id != '', arrayMap(key -> attributes[key], id_keys)) AS told,
    id -> replaceRegexpOne(id, '^(chatcmpl|cmpl)-', '') AS bare,
    id -> replaceRegexpOne(id, '-([0-9]{1,3}|[0-9a-f]{8})$', '') AS shorter,
    -- One side shortens its ids (joining/140_orphans.sql), the other does not; either may be the new one.
    id -> [id, bare(id)] AS literal,
    id -> [id, bare(id), shorter(bare(id)), shorter(shorter(bare(id)))] AS forms,
    ids -> arrayConcat(
        arrayMap(id -> concat('1', id), arrayFlatten(arrayMap(id -> literal(id), ids))), arrayMap(id -> concat('2', id), arrayFlatten(arrayMap(id -> forms(id), ids)))
    ) AS here,
    ids -> arrayConcat(
        arrayMap(id -> concat('1', id), arrayFlatten(arrayMap(id -> forms(id), ids))), arrayMap(id -> concat('2', id), arrayFlatten(arrayMap(id -> literal(id), ids)))
    ) AS there,
    near AS (
        SELECT
            trace_id,
            attributes,
            toUnixTimestamp64Nano(started_at) AS from_ns,
            from_ns + ifNull(duration_ns, {max_attempt_ns:Int64}) AS to_ns,
            from_ns < {window_from_ns:Int64} + {window_ns:Int64} AND to_ns >= {window_from_ns:Int64} AS touches,
            log_offset >= (SELECT watermark FROM mark)[concat(topic, '/', toString(log_partition))] AS new
        FROM spans
        WHERE principal = 'platform'
            AND start_hour >= toStartOfHour(toDateTime(intDiv({window_from_ns:Int64} - {max_attempt_ns:Int64}, 1000000000), 'UTC'))
            AND start_hour <= toDateTime(intDiv({window_from_ns:Int64} + {window_ns:Int64} + {max_attempt_ns:Int64}, 1000000000), 'UTC')
    )
SELECT
    -- New ones after the window, and the ids of requests that reach out of it.
    (
        SELECT count() > 0
        FROM (SELECT arrayJoin(here(told(attributes))) AS id FROM near WHERE new AND from_ns >= {window_from_ns:Int64} + {window_ns:Int64})
        WHERE id IN (
            SELECT arrayJoin(there(told(attributes)))
            FROM near
            WHERE trace_id IN (SELECT trace_id FROM near WHERE touches AND to_ns >= {window_from_ns:Int64} + {window_ns:Int64} - {skew_ns:Int64})
        )
    )
    -- New ones before it that reach into it, and the ids of what touches it.
    OR (
        SELECT count() > 0
        FROM (SELECT arrayJoin(here(told(attributes))) AS id FROM near WHERE touches)
        WHERE id IN (
            SELECT arrayJoin(there(told(attributes)))
            FROM near
            WHERE new AND from_ns < {window_from_ns:Int64} AND to_ns >= {window_from_ns:Int64} - {skew_ns:Int64}
        )
    ) AS reached
