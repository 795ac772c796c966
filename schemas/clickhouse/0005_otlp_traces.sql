-- Where the loader inserts: one row per log record, decoded by the engine (schemas/otlp/traces.proto), kept nowhere.
-- `kind` of a value says which member of the oneof was there (input_format_protobuf_oneof_presence).
CREATE TABLE IF NOT EXISTS otlp_traces (
    topic LowCardinality(String),
    log_partition Int32,
    log_offset Int64,
    received_ns UInt64,
    max_age_ns UInt64,
    principal LowCardinality(String),
    ingest_key LowCardinality(String),
    request Tuple(resource_spans Array(Tuple(
        resource Tuple(attributes Array(Tuple(key String, value Tuple(
            kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7),
            string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String,
            array_value Tuple(values Array(Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
            string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))),
            kvlist_value Tuple(values Array(Tuple(key String, value Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
            string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String)))))))),
        scope_spans Array(Tuple(
            scope Tuple(name String, version String),
            spans Array(Tuple(
                trace_id String,
                span_id String,
                trace_state String,
                parent_span_id String,
                name String,
                kind Int64,
                start_time_unix_nano UInt64,
                end_time_unix_nano UInt64,
                attributes Array(Tuple(key String, value Tuple(
                    kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7),
                    string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String,
                    array_value Tuple(values Array(Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                    string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))),
                    kvlist_value Tuple(values Array(Tuple(key String, value Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                    string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))))))),
                events Array(Tuple(time_unix_nano UInt64, name String, attributes Array(Tuple(key String, value Tuple(
                    kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7),
                    string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String,
                    array_value Tuple(values Array(Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                    string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))),
                    kvlist_value Tuple(values Array(Tuple(key String, value Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                    string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))))))))),
                links Array(Tuple(trace_id String, span_id String)),
                status Tuple(message String, code Int64),
                flags UInt32
            ))
        ))
    )))
) ENGINE = Null
