-- Spans whose times cannot be right, with their raw values: kept to be seen and counted, read by nothing else.
CREATE TABLE IF NOT EXISTS rejected_spans (
    topic LowCardinality(String),
    log_partition Int32,
    log_offset Int64,
    item_no UInt32,
    reason LowCardinality(String),
    principal LowCardinality(String),
    service_name String,
    name String,
    trace_id String,
    span_id String,
    start_raw UInt64,
    end_raw UInt64,
    received_ns UInt64,
    first_wins UInt64 MATERIALIZED bitNot(received_ns)
) ENGINE = ReplacingMergeTree(first_wins) ORDER BY (topic, log_partition, log_offset, item_no)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
