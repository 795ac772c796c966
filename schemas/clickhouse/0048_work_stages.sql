-- Scratch of the one running attribution job: the stage spans under one parent and of one principal, with the request and the attempt
-- that they belong to (attempt zeros: the request as a whole). `place`: of the replica among the sorted rows of work_replicas, 0: none.
-- `facts`: what such spans tell besides their interval.
CREATE TABLE IF NOT EXISTS work_stages (
    trace_id FixedString(16),
    root FixedString(8),
    attempt FixedString(8),
    principal LowCardinality(String),
    within UInt8,
    intervals Array(Tuple(stage UInt8, started_ns Int64, ended_ns Int64, place UInt32)),
    hints Array(Tuple(started_ns Int64, span_id FixedString(8), ended_ns Nullable(Int64), failed UInt8, fields Map(LowCardinality(String), String))),
    facts Array(Tuple(stage UInt8, started_ns Int64, span_id FixedString(8), delivery_proof UInt8, fields Map(LowCardinality(String), String)))
) ENGINE = MergeTree ORDER BY tuple()
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
