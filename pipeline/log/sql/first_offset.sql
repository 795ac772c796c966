SELECT min("offset") FROM records WHERE topic = :topic AND partition = 0
