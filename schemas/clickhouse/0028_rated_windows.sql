-- The price book's side: billable tokens of a window times their price, unrounded. unit_price NULL: no price row fits (unpriced, amount NULL).
-- Metered per attempt, in the window of its request's root; useful_tokens are those of useful attempts in this bucket.
CREATE TABLE IF NOT EXISTS rated_windows (
    window_from DateTime('UTC'),
    run_id UInt64,
    tenant LowCardinality(String),
    model LowCardinality(String),
    bucket LowCardinality(String),
    sku LowCardinality(String),
    price_version String,
    currency LowCardinality(String),
    metered_tokens UInt64,
    billable_tokens UInt64,
    useful_tokens UInt64,
    usd_per_million_tokens Nullable(Decimal(38, 12)),
    list_usd_per_million_tokens Nullable(Decimal(38, 12)),
    amount Nullable(Decimal(38, 18)),
    list_amount Nullable(Decimal(38, 18))
) ENGINE = MergeTree PARTITION BY toYYYYMM(window_from) ORDER BY (window_from, run_id, tenant, model, bucket)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
