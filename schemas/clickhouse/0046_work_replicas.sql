-- Scratch of the one running attribution job: which replica a resource is. Inventory rows have dates: their borders inside the range
-- that is read divide it into epochs, numbered from 0; `until_ns` is an epoch's end.
CREATE TABLE IF NOT EXISTS work_replicas (
    resource_key UInt64,
    epoch UInt32,
    until_ns Int64,
    replica String,
    listed UInt8
) ENGINE = MergeTree ORDER BY (resource_key, epoch)
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
