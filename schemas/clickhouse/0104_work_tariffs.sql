-- Scratch of the one running attribution job: when which price of a kWh holds, its hours of the day written out as times.
CREATE TABLE IF NOT EXISTS work_tariffs (
    price_id String,
    currency LowCardinality(String),
    atoms Int128,
    replicas Array(String),
    gpus Array(String),
    from_ns Int64,
    to_ns Int64
) ENGINE = MergeTree ORDER BY (from_ns, price_id)
