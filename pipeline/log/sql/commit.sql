INSERT INTO commits ("group", topic, partition, "offset") VALUES (:group, :topic, 0, :next_offset)
ON CONFLICT ("group", topic, partition) DO UPDATE SET "offset" = excluded."offset"
