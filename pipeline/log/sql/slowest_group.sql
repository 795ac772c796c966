SELECT min("offset") FROM commits WHERE topic = :topic AND partition = 0
