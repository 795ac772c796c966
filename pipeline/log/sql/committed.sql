SELECT "offset" FROM commits WHERE "group" = :group AND topic = :topic AND partition = 0
