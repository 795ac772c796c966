-- system.tables, not system.parts: a reader of the HTTP front sees no more than this.
SELECT ifNull(max(total_rows), 0) AS spans, ifNull(max(total_bytes), 0) AS bytes
FROM system.tables
WHERE database = currentDatabase() AND name = 'spans'
