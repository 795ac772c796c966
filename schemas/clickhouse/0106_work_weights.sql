-- Scratch of the one running attribution job: by what the money of a priced resource is divided. Only weights above 0.
CREATE TABLE IF NOT EXISTS work_weights (
    window_from DateTime('UTC'),
    pool LowCardinality(String),
    resource LowCardinality(String),
    price_id LowCardinality(String),
    attempt_id String,
    weight Int128
) ENGINE = MergeTree ORDER BY (window_from, pool, resource, price_id)
