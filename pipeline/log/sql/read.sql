SELECT "offset", headers, value FROM records
WHERE topic = :topic AND partition = 0 AND "offset" >= :from_offset
ORDER BY "offset"
LIMIT :max_records
