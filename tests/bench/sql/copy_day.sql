-- Another day like the first.
INSERT INTO {table:Identifier}
SELECT day.* REPLACE (toDateTime(toUnixTimestamp(day.window_from) + {shift_s:UInt32}, 'UTC') AS window_from)
FROM {table:Identifier} AS day
WHERE day.window_from < toDateTime({to_s:UInt32}, 'UTC')
