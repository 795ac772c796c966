DELETE FROM records WHERE topic = :topic AND partition = 0 AND "offset" < :before_offset
