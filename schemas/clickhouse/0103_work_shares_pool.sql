-- Shares of every pool, not only of GPU time: the resource is a replica, or a row of pool_prices.
ALTER TABLE work_shares
    RENAME COLUMN IF EXISTS replica TO resource,
    ADD COLUMN IF NOT EXISTS pool Enum8('gpu' = 1, 'power' = 2, 'network' = 3, 'kv_storage' = 4, 'gateway' = 5, 'overhead' = 6) DEFAULT 'gpu'
