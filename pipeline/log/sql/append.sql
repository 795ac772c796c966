INSERT INTO records (topic, partition, "offset", headers, value) VALUES (?, 0, ?, ?, ?)
