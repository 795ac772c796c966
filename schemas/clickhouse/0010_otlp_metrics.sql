-- Where the loader inserts metrics: see 0005_otlp_traces.sql. At most one of a metric's five kinds has data points.
CREATE TABLE IF NOT EXISTS otlp_metrics (
    topic LowCardinality(String),
    log_partition Int32,
    log_offset Int64,
    received_ns UInt64,
    max_age_ns UInt64,
    principal LowCardinality(String),
    ingest_key LowCardinality(String),
    request Tuple(resource_metrics Array(Tuple(
        resource Tuple(attributes Array(Tuple(key String, value Tuple(
            kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7),
            string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String,
            array_value Tuple(values Array(Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
            string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))),
            kvlist_value Tuple(values Array(Tuple(key String, value Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
            string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String)))))))),
        scope_metrics Array(Tuple(
            scope Tuple(name String, version String),
            metrics Array(Tuple(
                name String,
                unit String,
                gauge Tuple(data_points Array(Tuple(
                    start_time_unix_nano UInt64, time_unix_nano UInt64, flags UInt32, as_double Nullable(Float64), as_int Nullable(Int64),
                    attributes Array(Tuple(key String, value Tuple(
                        kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String,
                        array_value Tuple(values Array(Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))),
                        kvlist_value Tuple(values Array(Tuple(key String, value Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String)))))))))),
                sum Tuple(aggregation_temporality Int64, data_points Array(Tuple(
                    start_time_unix_nano UInt64, time_unix_nano UInt64, flags UInt32, as_double Nullable(Float64), as_int Nullable(Int64),
                    attributes Array(Tuple(key String, value Tuple(
                        kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String,
                        array_value Tuple(values Array(Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))),
                        kvlist_value Tuple(values Array(Tuple(key String, value Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String)))))))))),
                histogram Tuple(aggregation_temporality Int64, data_points Array(Tuple(
                    start_time_unix_nano UInt64, time_unix_nano UInt64, flags UInt32, count UInt64, sum Nullable(Float64),
                    bucket_counts Array(UInt64), explicit_bounds Array(Float64),
                    attributes Array(Tuple(key String, value Tuple(
                        kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String,
                        array_value Tuple(values Array(Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))),
                        kvlist_value Tuple(values Array(Tuple(key String, value Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String)))))))))),
                exponential_histogram Tuple(aggregation_temporality Int64, data_points Array(Tuple(
                    start_time_unix_nano UInt64, time_unix_nano UInt64, flags UInt32, count UInt64, sum Nullable(Float64), scale Int32, zero_count UInt64,
                    positive Tuple(offset Int32, bucket_counts Array(UInt64)), negative Tuple(offset Int32, bucket_counts Array(UInt64)),
                    attributes Array(Tuple(key String, value Tuple(
                        kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String,
                        array_value Tuple(values Array(Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))),
                        kvlist_value Tuple(values Array(Tuple(key String, value Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String)))))))))),
                summary Tuple(data_points Array(Tuple(
                    start_time_unix_nano UInt64, time_unix_nano UInt64, flags UInt32, count UInt64, sum Float64,
                    quantile_values Array(Tuple(quantile Float64, value Float64)),
                    attributes Array(Tuple(key String, value Tuple(
                        kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String,
                        array_value Tuple(values Array(Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))),
                        kvlist_value Tuple(values Array(Tuple(key String, value Tuple(kind Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'double_value' = 4, 'bytes_value' = 7),
                        string_value String, bool_value UInt64, int_value Int64, double_value Float64, bytes_value String))))))))))
            ))
        ))
    )))
) ENGINE = Null
