CREATE TABLE recorded_spans AS spans ENGINE = MergeTree ORDER BY (start_hour, trace_id, span_id)
