-- Watts of all GPUs of the replica with work and without, 0: unknown. purchase: which price of its GPU holds for it.
ALTER TABLE inventory
    ADD COLUMN IF NOT EXISTS watts_busy UInt64,
    ADD COLUMN IF NOT EXISTS watts_idle UInt64,
    ADD COLUMN IF NOT EXISTS purchase LowCardinality(String) DEFAULT 'on_demand'
