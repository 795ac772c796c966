CREATE TABLE IF NOT EXISTS commits (
    "group"     TEXT NOT NULL,
    topic       TEXT NOT NULL,
    partition   INTEGER NOT NULL,
    "offset"    INTEGER NOT NULL, -- the next one to read
    PRIMARY KEY ("group", topic, partition)
)
