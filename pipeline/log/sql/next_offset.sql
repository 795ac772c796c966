SELECT coalesce(max("offset") + 1, 0) FROM records WHERE topic = :topic AND partition = 0
