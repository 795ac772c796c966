-- How the GPU was bought: one GPU may have a price per way at the same time.
ALTER TABLE gpu_prices ADD COLUMN IF NOT EXISTS purchase LowCardinality(String) DEFAULT 'on_demand'
