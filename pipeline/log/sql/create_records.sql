CREATE TABLE IF NOT EXISTS records (
    topic       TEXT NOT NULL,
    partition   INTEGER NOT NULL,
    "offset"    INTEGER NOT NULL,
    headers     TEXT NOT NULL, -- JSON object of strings
    value       BLOB NOT NULL,
    PRIMARY KEY (topic, partition, "offset")
)
