-- What the metrics of a window tell (quantities and their one unit each: schemas/metric.py). '' = the figure has no such place.
-- value: the increase of counters, the integral of rates, the mean over time of gauges. peak: of gauges the largest reading of one series.
-- service: of figures of a gateway, router or store, so that layers that count the same requests are not added up.
-- covered_ns: the part of the window for which at least one series had a value; what lies outside is unknown, not 0.
CREATE TABLE IF NOT EXISTS measures (
    window_from DateTime('UTC'),
    run_id UInt64,
    quantity LowCardinality(String),
    unit LowCardinality(String),
    service LowCardinality(String),
    host LowCardinality(String),
    replica LowCardinality(String),
    device LowCardinality(String),
    model LowCardinality(String),
    value Float64,
    peak Nullable(Float64),
    covered_ns UInt64,
    source String
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id, quantity, service, host, replica, device, model)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
